// The momentum of an optimizer, which schedules of the rate may move in the opposite direction; for
// the files of this folder only.
#pragma once

#include "core/optim/optimizer.h"
#include "platform/error.h"

namespace booster {

inline void check_has_momentum(const char* schedule, const Optimizer& optimizer) {
  const OptimizerOptions& own = optimizer.options();
  check(own.count("momentum") || own.count("beta1"),
        "{}: {} has neither momentum nor beta1; want cycle_momentum = false", schedule,
        optimizer.name());
}

// Sets momentum, or beta1 of an optimizer without, in all groups.
inline void set_momentum(Optimizer& optimizer, double momentum) {
  for (int group = 0; group < optimizer.group_count(); ++group) {
    const bool has_momentum = optimizer.options(group).count("momentum");
    optimizer.set_option(group, has_momentum ? "momentum" : "beta1", momentum);
  }
}

}  // namespace booster
