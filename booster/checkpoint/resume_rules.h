// What may differ between a training that was saved and the program that resumes it.
//
// One rule: what the program was given counts where it can be changed, and what trained since then
// stays as saved. So a checkpoint holds the options that optimizer, strategy, schedule and loader
// were constructed with beside those in force, and only the former are compared: a schedule that
// moved `lr` changed nothing. What cannot change, or would move the position in the data, is
// refused.
#pragma once

#include "booster/checkpoint/training_state.h"

#include <string>
#include <vector>

namespace booster {

// A setting that the saved training had otherwise, as text: "optimizer.lr", "0.001", "0.5".
struct SettingChange {
  std::string name, before, now;
};

// Error of kind data that names the first difference between the saved training and that of the
// program (`now`) with which it cannot go on. `what` begins it.
void check_same_training(const TrainingState& saved, const TrainingState& now,
                         const std::string& what);

// Puts what the program changed into `saved`, and returns it. Error if it cannot be changed.
std::vector<SettingChange> adopt_changes(TrainingState& saved, const TrainingState& now,
                                         const Optimizer& optimizer);

}  // namespace booster
