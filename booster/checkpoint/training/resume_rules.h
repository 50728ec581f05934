// What may differ between a training that was saved and the program that resumes it.
//
// One rule: what the program was given counts where it can be changed, and what trained since then
// stays as saved. So a checkpoint holds the options that optimizer, strategy, schedule and loader
// were constructed with beside those in force, and only the former are compared: a schedule that
// moved `lr` changed nothing. How the training is spread may change: plugin, number of ranks, batch
// size, as long as the position in the data is one in the new layout too. What cannot change, or
// would give other data, is refused.
#pragma once

#include "booster/checkpoint/training/setting_change.h"
#include "booster/checkpoint/training/training_state.h"

#include <string>
#include <vector>

namespace booster {

// Error of kind data that names the first difference between the saved training and that of the
// program (`now`) with which it cannot go on. `what` begins it. The order of samples is compared
// apart: it is made of all ranks' shares, so what differs on one is that one's error first.
void check_same_training(const TrainingState& saved, const TrainingState& now,
                         const std::string& what);
void check_same_order(const TrainingState& saved, const TrainingState& now,
                      const std::string& what);

// Puts what the program changed into `saved`, and returns it. Error if it cannot be changed.
std::vector<SettingChange> adopt_changes(TrainingState& saved, const TrainingState& now,
                                         const Optimizer& optimizer);

}  // namespace booster
