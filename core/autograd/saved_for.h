// Operands kept for a gradient only where that gradient can be wanted.
#pragma once

#include "core/autograd/tape.h"

namespace booster {

// x, of which only the gradient of `other` is made: nothing if that takes none. So below frozen
// weights no activations are kept, and what no gradient reads may be changed in place.
inline SavedInput saved_for(const Tensor& other, const Tensor& x) {
  return other.requires_grad() ? SavedInput(x) : SavedInput();
}

}  // namespace booster
