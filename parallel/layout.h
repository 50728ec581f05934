// How a model is spread, as plain values: what a precision strategy and a plugin both know.
#pragma once

#include <cstdint>

namespace booster {

// Ranks along each axis; their product is the world's size.
struct Layout {
  int data = 1;
  int tensor = 1;
  int pipeline = 1;
  int sequence = 1;
  int zero_stage = 0;  // 0 none, 1 optimizer state, 2 and gradients, 3 and parameters

  bool is_data_alone() const { return tensor * pipeline * sequence == 1; }
  int64_t ranks() const { return int64_t{data} * tensor * pipeline * sequence; }
};

// Which ranks make a set of numbers the same.
enum class Among : uint8_t {
  everybody,    // all that train together: whether a step is skipped
  same_layers,  // those that hold the same layers or parts of them: magnitudes of each layer
};

// A pass through the model. A forward pass is one call of the model, a backward pass that of one
// loss (or of all microbatches of a pipeline).
enum class Pass : uint8_t { forward, backward };

}  // namespace booster
