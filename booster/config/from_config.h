// What a config describes, made: model, optimizer, scheduler. The errors are those of the objects'
// own constructors. Thread-safe, but check_together as Mistakes.
#pragma once

#include "booster/config/config.h"
#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "core/optim/schedules/lr_scheduler.h"

#include <functional>
#include <string>

namespace booster {

// Where a config has its model trained. "cuda" is the GPU of this rank's number on its machine.
Device device_of(const Config& config);
// On that device, with the weights that it starts from, and frozen where the config wants it;
// `report` is told what of the weights' file did not simply fit.
Model make_model(const Config& config,
                 const std::function<void(const std::string&)>& report = {});
Optimizer make_optimizer(const Config& config, const Model& model);
// `training_steps` is the number of optimizer steps of the whole run, which replaces a total_steps
// of 0.
LRScheduler make_lr_scheduler(const Config& config, const Optimizer& optimizer,
                              int64_t training_steps);

// Tells `mistakes` what the constructors of these, and of the strategy, would refuse: options that
// do not go together. Nothing large is made. Sections that have mistakes already are left out.
void check_together(const Config& config, Mistakes& mistakes);

}  // namespace booster
