// What a strategy did about numbers that did not fit, as far as the metrics of a run tell.
#pragma once

#include "booster/report/run_folder.h"

#include <string>
#include <vector>

namespace booster::report {

// Between two logged steps: metrics have a line every train.log_every of them.
struct PrecisionEvent {
  double from = 0, to = 0;  // steps; the line of `to` tells, the one of `from` does not
  std::string what;         // "2 steps skipped; loss scale 65536 to 32768"
};

// By step: skipped steps, changes of the loss scale, losses that are not finite (null in the file)
// and refusals.
std::vector<PrecisionEvent> precision_events(const RunFolder& run);

}  // namespace booster::report
