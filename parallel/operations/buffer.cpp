#include "parallel/operations/operation.h"

namespace booster {

Buffer::Buffer(const kernels::View& view)
    : Buffer(view.data, view.size(), view.dtype, view.device) {
  check(view.contiguous(), "Buffer: the tensor is not contiguous; make a contiguous copy first");
}

// Keeps the storage instead of the tensor, because a tape must not reach the group's thread.
Buffer::Buffer(const Tensor& tensor) : Buffer(tensor.view()) {
  storage = tensor.body()->storage;
}

}  // namespace booster
