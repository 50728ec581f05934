// Optimizers and schedulers by the names that configs use, with their options as numbers.
#pragma once

#include "core/optim/lr_scheduler.h"
#include "core/optim/optimizer.h"

namespace booster {

// "adam", "adamw", "lamb", "sgd"
std::vector<std::string> optimizer_names();
// Every option of that optimizer with its default.
Options optimizer_defaults(const std::string& name);
// `options` lists what differs from the defaults. Errors: unknown name or option (with the nearest
// legal one), value out of range.
Optimizer make_optimizer(const std::string& name, const ParameterGroups& groups,
                         const Options& options);

// A scheduler's options: one number each, or a list (milestones).
using ScheduleOptions = std::map<std::string, std::vector<double>>;

// "constant", "cosine", "cosine_warmup", "exponential", "linear_warmup", "multi_step", "one_cycle",
// "polynomial", "step"; a lambda has no name.
std::vector<std::string> lr_scheduler_names();
ScheduleOptions lr_scheduler_defaults(const std::string& name);
LRScheduler make_lr_scheduler(const std::string& name, const Optimizer& optimizer,
                              const ScheduleOptions& options);

}  // namespace booster
