// Indices that a kernel checks before it uses them.
#pragma once

#include "core/tensor/tensor.h"

#include <functional>

namespace booster {

// Returns the index (i64) for later kernels. `bad` (i64, one element) is the position of the first
// index outside [0, size), or -1 if all are inside. Calls `raise`, which throws, with the position
// of a bad index: immediately, which waits for a GPU, or in captured work later (check_later). In
// captured work it returns a copy with every index clamped to the range, since later kernels trust
// it and a replay does not stop.
Tensor checked_index(const Tensor& bad, const Tensor& index, int64_t size,
                     std::function<void(int64_t)> raise);

// Returns memory for the result of such a kernel, which leaves it unwritten if it finds a bad
// index. In captured work, which continues after that, the memory is zero.
Tensor room_for_read(const Shape& shape, TensorOptions options);

}  // namespace booster
