#include "parallel/operations/buffer.h"

namespace booster {

Buffer::Buffer(const kernels::View& view)
    : Buffer(view.data, view.size(), view.dtype, view.device) {
  check(view.contiguous(), "Buffer: the tensor is not contiguous; make a contiguous copy first");
}

// The storage and not the tensor: what goes on the group's thread must not take a tape with it.
Buffer::Buffer(const Tensor& tensor) : Buffer(tensor.view()) {
  storage = tensor.body()->storage;
}

}  // namespace booster
