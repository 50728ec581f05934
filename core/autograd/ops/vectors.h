// Internal: tensors without dimensions as arguments of functions of a dimension. As in torch, such
// functions treat them as vectors of one element.
#pragma once

#include "core/autograd/functions.h"

namespace booster {

// Returns x, or a vector of x's one element if x has no dimensions; recorded.
inline Tensor as_vector(const Tensor& x) { return x.ndim() > 0 ? x : reshape(x, {1}); }

}  // namespace booster
