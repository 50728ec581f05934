// Indices that a kernel checks before it uses them.
#pragma once

#include "core/tensor/tensor.h"

#include <functional>

namespace booster {

// Returns the index (i64) to go on with. `bad` (i64, one element) is the position of the first
// index outside [0, size), or -1 if all are inside. For a bad one `raise` is called with the
// position, and throws: at once, which waits for a GPU; within captured work as check_later says.
// Captured work goes on with a copy in which every index is moved inside, since later kernels trust
// it and a replay does not stop.
Tensor checked_index(const Tensor& bad, const Tensor& index, int64_t size,
                     std::function<void(int64_t)> raise);

// Returns memory for the result of such a kernel, which leaves it unwritten if it finds a bad
// index. Captured work goes on after that, so there the memory is zero.
Tensor room_for_read(const Shape& shape, TensorOptions options);

}  // namespace booster
