// Exchange of tensors with other libraries in the same process, without a copy (DLPack):
//   DLManagedTensorVersioned* theirs = ...;              // of a capsule "dltensor_versioned"
//   Tensor x = from_dlpack(theirs);
//   give(to_dlpack(x * 2));                              // the receiver calls its deleter
// Both sides share the memory, which lives until both have released it. Thread-safe for distinct
// tensors.
//
// On a GPU the two sides queue work on streams that do not wait for each other. A side that takes a
// tensor, or reuses memory after its release, must therefore run after the other side's queued
// work. `stream` states how:
// - The other side's stream (a cudaStream_t of the tensor's device; legacy_stream is PyTorch's
//   default). The two streams wait for each other on the GPU when a tensor is passed and when it is
//   released. The host does not wait. The stream must outlive the tensor.
// - Null, if it is unknown: both times, the host waits for all work queued on the GPU.
#pragma once

#include "core/tensor/tensor.h"

#include <cstdint>

namespace booster {

// --- The structures of DLPack 1.0, with which libraries exchange tensors in one process
// (dmlc.github.io/dlpack, c_api). Their layout never changes. The names are DLPack's own, in a
// namespace, so that DLPack's header can be included as well.

namespace dlpack {

struct DLDevice {
  int32_t device_type = 0;
  int32_t device_id = 0;
};
inline constexpr int32_t kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3;

struct DLDataType {
  uint8_t code = 0;
  uint8_t bits = 0;
  uint16_t lanes = 1;
};
inline constexpr uint8_t kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLBool = 6;

struct DLTensor {
  void* data = nullptr;
  DLDevice device;
  int32_t ndim = 0;
  DLDataType dtype;
  int64_t* shape = nullptr;
  int64_t* strides = nullptr;  // in elements; null: dense rows
  uint64_t byte_offset = 0;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx = nullptr;
  void (*deleter)(DLManagedTensor*) = nullptr;
};

struct DLPackVersion {
  uint32_t major = 1;
  uint32_t minor = 0;
};
inline constexpr uint64_t read_only_flag = 1;  // DLPACK_FLAG_BITMASK_READ_ONLY

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx = nullptr;
  void (*deleter)(DLManagedTensorVersioned*) = nullptr;
  uint64_t flags = 0;
  DLTensor dl_tensor;
};

static_assert(sizeof(void*) == 8 && sizeof(DLTensor) == 48 && sizeof(DLManagedTensor) == 64 &&
              sizeof(DLManagedTensorVersioned) == 80);

}  // namespace dlpack

// --- the exchange

// CUDA's default stream, on which PyTorch runs by default.
inline void* const legacy_stream = reinterpret_cast<void*>(1);  // cudaStreamLegacy

// Exports a tensor; the receiver calls the deleter once. Throws for a tensor that requires
// gradients, since the other side would not record them (want x.detach()), and for an absent tensor
// (absence.h).
dlpack::DLManagedTensorVersioned* to_dlpack(const Tensor& x, void* stream = nullptr);
// Returns the structure of DLPack before 1.0 (a capsule "dltensor").
dlpack::DLManagedTensor* to_dlpack_unversioned(const Tensor& x, void* stream = nullptr);

// Imports a tensor and takes ownership, even on an error. Calls the deleter when the last tensor on
// the memory is destroyed. Throws for an unsupported dtype or device, more than 8 dimensions,
// negative strides, read-only memory, memory not aligned to its elements, and another major
// version.
Tensor from_dlpack(dlpack::DLManagedTensorVersioned* tensor, void* stream = nullptr);
Tensor from_dlpack(dlpack::DLManagedTensor* tensor, void* stream = nullptr);

}  // namespace booster
