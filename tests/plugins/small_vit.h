// A Vision Transformer that can be cut in many ways, and inputs for it.
#pragma once

#include "booster/booster.h"

namespace booster::testing {

inline Model small_vit(int64_t heads = 6) {
  return models::vit("vit_tiny_patch16_224", {.num_classes = 5,
                                              .attn_drop_rate = 0.1,
                                              .proj_drop_rate = 0.1,
                                              .img_size = 48,
                                              .embed_dim = 24,
                                              .depth = 2,
                                              .num_heads = heads});
}

// Returns values from -1 to 1, always the same for a seed.
inline Tensor numbers(const Shape& shape, uint64_t seed) {
  Generator generator(seed);
  return uniform(shape, -1, 1, {}, generator);
}

}  // namespace booster::testing
