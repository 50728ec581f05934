// Tensors for other libraries in the same process, and theirs for us, without a copy (DLPack):
//   DLManagedTensorVersioned* theirs = ...;              // of a capsule "dltensor_versioned"
//   Tensor x = from_dlpack(theirs);
//   give(to_dlpack(x * 2));                              // who takes it calls its deleter
// Both sides share the memory, which lives until the last of them has let go of it. On a GPU
// whoever hands over says on which stream the numbers are ready; what is queued here runs on the
// default stream, in order. Thread-safe for distinct tensors.
#pragma once

#include "core/tensor/dlpack_abi.h"
#include "core/tensor/tensor.h"

namespace booster {

// Whoever takes it calls the deleter once. Error for a tensor that requires gradients, which the
// other side would not record (want x.detach()), and for one whose memory another rank keeps.
dlpack::DLManagedTensorVersioned* to_dlpack(const Tensor& x);
// The structure from before DLPack 1.0 (a capsule "dltensor").
dlpack::DLManagedTensor* to_dlpack_unversioned(const Tensor& x);

// Takes it over, in an error too: its deleter is called when the last tensor on the memory is gone.
// Error for what no tensor here is: a dtype, a device, more than 8 dimensions, negative strides,
// memory that is read-only or not aligned to its elements, a structure of another major version.
Tensor from_dlpack(dlpack::DLManagedTensorVersioned* tensor);
Tensor from_dlpack(dlpack::DLManagedTensor* tensor);

}  // namespace booster
