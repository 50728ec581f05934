// Every built-in strategy in each of its levels and styles, for tests that play them all. First
// loss scales are small, so that nothing overflows but what is meant to, and they move soon.
#pragma once

#include "booster/booster.h"

#include <vector>

namespace booster::testing {

enum class Digits : uint8_t { f64, f32, f16, bf16, fp8 };

struct StrategyLevel {
  const char* name;
  Choice<Precision> make;
  Digits kept;        // the fewest of gradients in memory, masters, and weights without a master
  Digits computed;    // the fewest in a forward or backward pass
  bool skips = true;  // a step whose gradients are not finite
};

const std::vector<StrategyLevel>& strategy_levels();

}  // namespace booster::testing
