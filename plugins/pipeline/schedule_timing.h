// How long a schedule takes where sending costs nothing: a simulation, to compare styles and to
// show what theory says of them.
#pragma once

#include "plugins/pipeline/schedule.h"

#include <vector>

namespace booster {

// The time of each action on one chunk; both gradients together take input + weight.
struct ActionCosts {
  double forward = 1, input = 1, weight = 1;
};

struct ScheduleTiming {
  double makespan = 0;                // from the first action to the end of the last one
  double bubble = 0;                  // the share of the stages' time that none of them works
  std::vector<int> peak_activations;  // of each stage: chunks of microbatches, from the forward
                                      // pass until the gradients of its weights
};

// Error for a schedule in which stages wait for each other for ever.
ScheduleTiming time_schedule(const PipelineSchedule& schedule, const ActionCosts& costs = {});

}  // namespace booster
