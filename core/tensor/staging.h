// Numbers on their way to a GPU or from it (batches, parts of parameters): memory of the host which
// the GPU reads and writes by itself, and memory of the GPU into which is copied while it computes.
// Both are used again: for the host's, when the copy is done; for the GPU's, when what was queued
// while there was a tensor on it is done. Thread-safe; its tensors may outlive it.
#pragma once

#include "core/tensor/tensor.h"

#include <memory>

namespace booster {

class Staging {
 public:
  // Of a GPU; `tag`: what its memory there is for.
  explicit Staging(Device device, MemoryTag tag = MemoryTag::data);

  // On the host, not written yet.
  Tensor to_fill(const Shape& shape, DType dtype) const;
  // A copy on the GPU of what to_fill gave, or of its first rows. Returns at once; kernels queued
  // from now on run behind the copy.
  Tensor on_device(const Tensor& filled) const;
  // A copy on the host of a dense tensor on the GPU. Waits for it.
  Tensor on_host(const Tensor& there) const;

 private:
  struct Buffers;
  std::shared_ptr<Buffers> buffers_;
};

}  // namespace booster
