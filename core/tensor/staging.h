// Buffers for transfers to and from a GPU (batches, parts of parameters). They are pinned host
// memory, which the GPU accesses by itself, and GPU memory to fill while the GPU computes. Both are
// reused. A host buffer is free when its copy is done. A GPU buffer is free when all work queued
// during the life of its tensor is done. Thread-safe; its tensors may outlive it.
#pragma once

#include "core/tensor/tensor.h"

#include <memory>

namespace booster {

class Staging {
 public:
  // Serves one GPU; `tag` is the purpose of its GPU memory.
  explicit Staging(Device device, MemoryTag tag = MemoryTag::data);

  // Returns uninitialised memory on the host.
  Tensor to_fill(const Shape& shape, DType dtype) const;
  // Copies a tensor from to_fill(), or its first rows, to the GPU. Does not wait; kernels queued
  // from now on run after the copy.
  Tensor on_device(const Tensor& filled) const;
  // Copies a dense tensor on the GPU to the host, and waits for the copy.
  Tensor on_host(const Tensor& there) const;

 private:
  struct Buffers;
  std::shared_ptr<Buffers> buffers_;
};

}  // namespace booster
