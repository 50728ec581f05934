// A strategy's reactions to values out of range, derived from a run's metrics.
#pragma once

#include "tools/report/run_folder.h"

#include <string>
#include <vector>

namespace booster::report {

// An event between two logged steps: metrics have a line every train.log_every steps.
struct PrecisionEvent {
  double from = 0, to = 0;  // steps (from, to]: first reported by the line of `to`
  std::string what;         // "2 steps skipped; loss scale 65536 to 32768"
};

// Returns the events by step: skipped steps, changes of the loss scale, non-finite losses (null in
// the file) and refusals.
std::vector<PrecisionEvent> precision_events(const RunFolder& run);

}  // namespace booster::report
