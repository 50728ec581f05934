// The structures of DLPack 1.0, with which libraries exchange tensors in one process
// (dmlc.github.io/dlpack, c_api). Their layout is fixed for all time. The names are DLPack's own,
// in a namespace, so that DLPack's header can be included as well.
#pragma once

#include <cstdint>

namespace booster::dlpack {

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

}  // namespace booster::dlpack
