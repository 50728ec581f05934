// Moves of elements that depend only on their size.
#pragma once

#include "kernels/cuda/launch.cuh"

namespace booster::kernels::BOOSTER_VARIANT {

// Calls f with a typed null pointer to words of a size.
template <class F>
void visit_word(int64_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f(static_cast<uint8_t*>(nullptr));
    case 2: return f(static_cast<uint16_t*>(nullptr));
    case 4: return f(static_cast<uint32_t*>(nullptr));
    case 8: return f(static_cast<uint64_t*>(nullptr));
    default: return f(static_cast<uint4*>(nullptr));
  }
}

}  // namespace booster::kernels::BOOSTER_VARIANT
