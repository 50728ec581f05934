// Indices that a kernel has looked at before it used them.
#pragma once

#include "core/tensor/tensor.h"

#include <functional>

namespace booster {

// `bad` (i64, one element) is the position of the first index that is outside [0, size), or -1 if
// all are inside. Else `raise` is called with it, and raises the error: at once, for which a GPU is
// waited for; within captured work as check_later says. Returns the index (i64) to go on with: the
// same, but in captured work with those outside moved inside, since whatever comes behind trusts it
// and a replay does not stop.
Tensor checked_index(const Tensor& bad, const Tensor& index, int64_t size,
                     std::function<void(int64_t)> raise);

// Memory for what such a kernel reads by the index. It leaves it as it is if it finds a bad one,
// after which captured work goes on: there it is zero.
Tensor room_for_read(const Shape& shape, TensorOptions options);

}  // namespace booster
