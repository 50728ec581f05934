#include "parallel/operations/operation.h"

#include "parallel/operations/completion.h"

namespace booster {

Buffer::Buffer(const kernels::View& view)
    : Buffer(view.data, view.size(), view.dtype, view.device) {
  check(view.contiguous(), "Buffer: the tensor is not contiguous; make a contiguous copy first");
}

// Keeps the storage instead of the tensor, because a tape must not reach the group's thread.
Buffer::Buffer(const Tensor& tensor) : Buffer(tensor.view()) {
  storage = tensor.body()->storage;
}

void Work::wait(kernels::Stream stream) const {
  if (completion_) completion_->order(stream);
}

void Work::synchronize() const {
  if (completion_) completion_->synchronize();
}

bool Work::is_done() const { return !completion_ || completion_->is_done(); }

}  // namespace booster
