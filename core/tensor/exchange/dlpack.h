// Exchange of tensors with other libraries in the same process, without a copy (DLPack):
//   DLManagedTensorVersioned* theirs = ...;              // of a capsule "dltensor_versioned"
//   Tensor x = from_dlpack(theirs);
//   give(to_dlpack(x * 2));                              // who takes it calls its deleter
// Both sides share the memory, which lives until the last of them has released it. Thread-safe for
// distinct tensors.
//
// On a GPU the two sides queue work on streams that do not wait for each other. So the work of the
// side that takes a tensor, or reuses its memory after a release, must follow what the other side
// has queued on it. `stream` says how:
// - The other side's stream (a cudaStream_t of the tensor's device; legacy_stream is PyTorch's
//   default): it and ours wait for each other on the GPU, when a tensor is handed over and when it
//   is released. The host does not wait. The stream must outlive the tensor.
// - Null, if it is unknown: the host waits, both times, for all work that the GPU has.
#pragma once

#include "core/tensor/exchange/dlpack_abi.h"
#include "core/tensor/tensor.h"

namespace booster {

// CUDA's default stream, on which PyTorch runs by default.
inline void* const legacy_stream = reinterpret_cast<void*>(1);  // cudaStreamLegacy

// The receiver calls the deleter once. Error for a tensor that requires gradients, which the other
// side would not record (want x.detach()), and for a tensor whose memory is away (absence.h).
dlpack::DLManagedTensorVersioned* to_dlpack(const Tensor& x, void* stream = nullptr);
// The structure from before DLPack 1.0 (a capsule "dltensor").
dlpack::DLManagedTensor* to_dlpack_unversioned(const Tensor& x, void* stream = nullptr);

// Takes ownership, on an error too: the deleter is called when the last tensor on the memory is
// gone. Error for what a tensor here cannot be: a dtype, a device, more than 8 dimensions, negative
// strides, memory that is read-only or not aligned to its elements, a structure of another major
// version.
Tensor from_dlpack(dlpack::DLManagedTensorVersioned* tensor, void* stream = nullptr);
Tensor from_dlpack(dlpack::DLManagedTensor* tensor, void* stream = nullptr);

}  // namespace booster
