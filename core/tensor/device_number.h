// Numbers that a kernel left on its device: read by the program only when it asks, and found there
// by the next kernel without its help.
#pragma once

#include "core/tensor/tensor.h"
#include "kernels/system/error.h"

#include <utility>

namespace booster {

// One number that is not read before somebody wants it as a double, which waits for the device.
// Shares the tensor that it is given, so nobody may write into that later.
class DeviceNumber {
 public:
  explicit DeviceNumber(Tensor number) : number_(std::move(number)) {}
  operator double() const { return number_.item(); }
  const Tensor& tensor() const { return number_; }

 private:
  Tensor number_;
};

// Where kernels find an f32 that need not be there: null for an undefined tensor. Error unless it
// is one f32.
inline const float* device_float(const Tensor& x) {
  if (!x.defined()) return nullptr;
  check(x.dtype() == DType::f32 && x.numel() == 1, "device_float: got {} {}, want one f32",
        name_of(x.dtype()), x.shape());
  return static_cast<const float*>(x.data());
}

}  // namespace booster
