// What may differ between a saved training and the program that resumes it.
//
// One rule: settings of the program count where they can be changed; what training has changed
// since then stays as saved. So a checkpoint holds, next to the options in force, the options with
// which optimizer, strategy, schedule and loader were constructed. Only the latter are compared: a
// schedule that moved `lr` changed nothing. Plugin, number of ranks and batch size may change if
// the position in the data is valid in the new layout. Anything that cannot change, or would give
// different data, is refused.
#pragma once

#include "booster/checkpoint/training/training_state.h"
#include "booster/checkpoint/folder/checkpoint.h"

#include <string>
#include <vector>

namespace booster {

// Throws an Error of kind data, beginning with `what`, that names the first difference with which
// the program (`now`) cannot continue the saved training. check_same_order compares the order of
// samples separately: it needs the shares of all ranks, so each rank first reports its own
// differences.
void check_same_training(const TrainingState& saved, const TrainingState& now,
                         const std::string& what);
void check_same_order(const TrainingState& saved, const TrainingState& now,
                      const std::string& what);

// Puts the program's changes into `saved` and returns them. Throws if one cannot be changed.
std::vector<SettingChange> adopt_changes(TrainingState& saved, const TrainingState& now,
                                         const Optimizer& optimizer);

}  // namespace booster
