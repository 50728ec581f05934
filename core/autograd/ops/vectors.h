// Internal: tensors without dimensions as arguments of functions that go along one: as torch's,
// those take them as vectors of one element.
#pragma once

#include "core/autograd/functions.h"

namespace booster {

// Returns x, or its one element as a vector; recorded.
inline Tensor as_vector(const Tensor& x) { return x.ndim() > 0 ? x : reshape(x, {1}); }

}  // namespace booster
