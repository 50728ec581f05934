// How a model is distributed, as plain values for both precision strategies and plugins.
#pragma once

#include <cstdint>

namespace booster {

// Ranks along each axis; their product is the world's size.
struct Layout {
  int data = 1;
  int tensor = 1;
  int pipeline = 1;
  int sequence = 1;
  int zero_stage = 0;  // 0 none, 1 optimizer state, 2 also gradients, 3 also parameters

  bool is_data_alone() const { return tensor * pipeline * sequence == 1; }
  int64_t ranks() const { return int64_t{data} * tensor * pipeline * sequence; }
};

// The ranks over which values are made equal.
enum class Among : uint8_t {
  everybody,    // all that train together: for whether a step is skipped
  same_layers,  // ranks with the same layers or parts of them: for magnitudes of each layer
};

// A pass through the model. A forward pass is one call of the model; a backward pass is for one
// loss, or for all microbatches of a pipeline.
enum class Pass : uint8_t { forward, backward };

}  // namespace booster
