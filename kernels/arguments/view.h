// A kernel's view of a tensor: a pointer, a dtype, a device, sizes and strides. Plain data; kernels
// do not know Tensor. Included by code compiled per CPU variant, so it holds no std template.
#pragma once

#include <cstdint>

namespace booster {

enum class DType : uint8_t { f32, f64, f16, bf16, i32, i64, u8, boolean };

constexpr int64_t size_of(DType dtype) {
  constexpr int64_t sizes[] = {4, 8, 2, 2, 4, 8, 1, 1};
  return sizes[static_cast<int>(dtype)];
}
constexpr const char* name_of(DType dtype) {
  constexpr const char* names[] = {"f32", "f64", "f16", "bf16", "i32", "i64", "u8", "bool"};
  return names[static_cast<int>(dtype)];
}
constexpr bool is_floating(DType dtype) { return dtype <= DType::bf16; }
constexpr bool is_16_bit(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

enum class DeviceType : uint8_t { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  int8_t index = 0;
  friend constexpr bool operator==(Device, Device) = default;
};

namespace kernels {

inline constexpr int max_dims = 8;

// Strides are in elements and may be 0 (broadcast). `data` already includes the storage offset.
// A View with data == nullptr means an absent optional argument.
struct View {
  void* data = nullptr;
  DType dtype = DType::f32;
  Device device = {};
  int ndim = 0;
  int64_t shape[max_dims] = {};
  int64_t strides[max_dims] = {};

  constexpr int64_t size() const {
    int64_t n = 1;
    for (int i = 0; i < ndim; ++i) n *= shape[i];
    return n;
  }
  // Returns true for dense row-major strides. As in torch, any strides are contiguous without
  // elements.
  constexpr bool contiguous() const {
    if (size() == 0) return true;
    int64_t expected = 1;
    for (int i = ndim - 1; i >= 0; --i) {
      if (shape[i] != 1 && strides[i] != expected) return false;
      expected *= shape[i];
    }
    return true;
  }
  // Returns the number of rows: the product of all sizes except the last.
  constexpr int64_t rows() const {
    int64_t n = 1;
    for (int i = 0; i + 1 < ndim; ++i) n *= shape[i];
    return n;
  }
  constexpr int64_t columns() const { return ndim ? shape[ndim - 1] : 1; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// A device queue. Its entries run in order, and the program does not wait for them.
struct Stream {
  Device device = {};
  void* handle = nullptr;  // a cudaStream_t; null for the device's default stream and for the host
};

// A sliding window over (h, w): kernel size, stride, padding, dilation; groups for convolutions.
struct Window2d {
  int64_t kernel[2];
  int64_t stride[2] = {1, 1};
  int64_t padding[2] = {0, 0};
  int64_t dilation[2] = {1, 1};
  int64_t groups = 1;
};

// Position in a Philox4x32-10 stream (Salmon et al., SC'11): `key` is the seed, `offset` counts the
// blocks of four 32-bit numbers already used. Element i of a kernel uses block offset + i / 4, word
// i % 4, so values do not depend on the number of threads.
struct RandomPosition {
  uint64_t key = 0;
  uint64_t offset = 0;
  // {key, offset} in the memory of the kernel's device: replaces `key`, and is added to `offset`.
  // Null for a kernel that runs once. A recorded kernel draws new numbers from it in each replay.
  const uint64_t* origin = nullptr;
};

}  // namespace kernels
}  // namespace booster
