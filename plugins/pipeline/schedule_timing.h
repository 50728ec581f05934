// Simulates the duration of a schedule without costs of messages, to compare styles with each other
// and with theory.
#pragma once

#include "plugins/pipeline/schedule.h"

#include <vector>

namespace booster {

// The time of each action on one chunk; a whole backward takes input + weight.
struct ActionCosts {
  double forward = 1, input = 1, weight = 1;
};

struct ScheduleTiming {
  double makespan = 0;                // from the first action to the end of the last one
  double bubble = 0;                  // idle share of the stages' time
  std::vector<int> peak_activations;  // by stage: chunks held from forward until their weights'
                                      // gradients are done
};

// Throws for a schedule in which stages wait for each other forever.
ScheduleTiming time_schedule(const PipelineSchedule& schedule, const ActionCosts& costs = {});

}  // namespace booster
