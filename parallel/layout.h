// How a model is spread, as plain numbers: what a precision strategy and a plugin both know.
#pragma once

#include <string>

namespace booster {

// Ranks along each axis; their product is the world's size.
struct Layout {
  int data = 1;
  int tensor = 1;
  int pipeline = 1;
  int sequence = 1;
  int zero_stage = 0;  // 0 none, 1 optimizer state, 2 and gradients, 3 and parameters
};

}  // namespace booster
