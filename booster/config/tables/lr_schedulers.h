// The learning-rate schedulers that a config may name, with their options. Thread-safe.
#pragma once

#include "booster/config/tables/named_entry.h"
#include "core/optim/schedules/lr_scheduler.h"

namespace booster {

// The largest number of steps of a schedule or training.
constexpr int64_t most_scheduled_steps = 1'000'000'000'000'000;

// `training_steps` is the number of optimizer steps of the whole training; total_steps = 0 means
// this number.
using LRSchedulerEntry = NamedEntry<LRScheduler(const Optimizer&, const OptionValues&,
                                                int64_t training_steps)>;
const std::vector<LRSchedulerEntry>& lr_scheduler_entries();

}  // namespace booster
