// Schedules as parts of another one; for the files of this folder only.
#pragma once

#include "core/optim/schedules/lr_scheduler.h"
#include "platform/error.h"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace booster {

// Checks that every part drives this optimizer and needs no metric.
inline void check_parts(const char* schedule, const Optimizer& optimizer,
                        const std::vector<LRScheduler>& parts) {
  for (const LRScheduler& part : parts) {
    check(part.drives(optimizer), "{}: {} was made for another optimizer", schedule, part.name());
    check(!part.schedule().wants_metric(), "{}: {} cannot be a part, because it needs a metric",
          schedule, part.name());
  }
}

// Returns the parts' names and settings, each under its number.
inline ScheduleSettings settings_of(const std::vector<LRScheduler>& parts) {
  ScheduleSettings all;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Schedule& part = parts[i].schedule();
    all[std::to_string(i)] = part.name();
    for (const auto& [option, value] : part.settings())
      all[fmt::format("{}.{}", i, option)] = value;
  }
  return all;
}

// Returns the base rates of the first part, which was made before the others changed the rates.
inline std::vector<double> first_rates(const std::vector<LRScheduler>& parts) {
  return parts.empty() ? std::vector<double>() : parts[0].state_dict().base_lrs;
}

}  // namespace booster
