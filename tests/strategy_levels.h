// Every built-in strategy in each of its levels and styles, for tests that run them all. Initial
// loss scales are small, so that only intended overflows occur, and they change soon.
#pragma once

#include "booster/booster.h"

#include <vector>

namespace booster::testing {

enum class Digits : uint8_t { f64, f32, f16, bf16, fp8 };

struct StrategyLevel {
  const char* name;
  Choice<Precision> make;
  Digits kept;        // least precision of gradients and of weights (or their masters)
  Digits computed;    // least precision in a forward or backward pass
  bool skips = true;  // skips a step with non-finite gradients
};

const std::vector<StrategyLevel>& strategy_levels();

}  // namespace booster::testing
