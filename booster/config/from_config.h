// Makes the objects that a config describes: model, optimizer, scheduler. Throws the errors of the
// objects' own constructors. Thread-safe, except check_together, which has the thread rules of
// Mistakes.
#pragma once

#include "booster/config/config.h"
#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "core/optim/schedules/lr_scheduler.h"

#include <functional>
#include <string>

namespace booster {

// Returns the device on which the config's model is trained. "cuda" is the GPU with this rank's
// number on its machine.
Device device_of(const Config& config);
// Makes the model on that device, loads its start weights and freezes what the config names. Calls
// `report` for everything in the weights' file that did not fit exactly.
Model make_model(const Config& config,
                 const std::function<void(const std::string&)>& report = {});
Optimizer make_optimizer(const Config& config, const Model& model);
// `training_steps`, the number of optimizer steps of the whole run, replaces a total_steps of 0.
LRScheduler make_lr_scheduler(const Config& config, const Optimizer& optimizer,
                              int64_t training_steps);

// Adds to `mistakes` what the constructors of these objects and of the strategy would refuse:
// options that do not fit together. Makes nothing large. Skips sections that have mistakes already.
void check_together(const Config& config, Mistakes& mistakes);

}  // namespace booster
