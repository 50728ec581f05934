// Tensors for other libraries in the same process, and theirs for us, without a copy (DLPack):
//   DLManagedTensorVersioned* theirs = ...;              // of a capsule "dltensor_versioned"
//   Tensor x = from_dlpack(theirs);
//   give(to_dlpack(x * 2));                              // who takes it calls its deleter
// Both sides share the memory, which lives until the last of them has let go of it. Thread-safe for
// distinct tensors.
//
// On a GPU the two sides queue work on streams that do not wait for each other. So whoever takes a
// tensor, or lets go of it, must come behind what the other side has queued on it:
// - `stream` is the other side's (a cudaStream_t of the tensor's device; legacy_stream is PyTorch's
//   default). It and ours wait for each other on the GPU, where a tensor is handed over and where
//   it is let go of; nobody waits on the host. It must outlive the tensor.
// - Null, where it is not known: the host waits, both times, for everything that the GPU was given.
#pragma once

#include "core/tensor/exchange/dlpack_abi.h"
#include "core/tensor/tensor.h"

namespace booster {

// What runs in the order of CUDA's default stream, as PyTorch does unless it is told otherwise.
inline void* const legacy_stream = reinterpret_cast<void*>(1);  // cudaStreamLegacy

// Whoever takes it calls the deleter once. Error for a tensor that requires gradients, which the
// other side would not record (want x.detach()), and for one whose memory another rank keeps.
dlpack::DLManagedTensorVersioned* to_dlpack(const Tensor& x, void* stream = nullptr);
// The structure from before DLPack 1.0 (a capsule "dltensor").
dlpack::DLManagedTensor* to_dlpack_unversioned(const Tensor& x, void* stream = nullptr);

// Takes it over, in an error too: its deleter is called when the last tensor on the memory is gone.
// Error for what no tensor here is: a dtype, a device, more than 8 dimensions, negative strides,
// memory that is read-only or not aligned to its elements, a structure of another major version.
Tensor from_dlpack(dlpack::DLManagedTensorVersioned* tensor, void* stream = nullptr);
Tensor from_dlpack(dlpack::DLManagedTensor* tensor, void* stream = nullptr);

}  // namespace booster
