// Numbers that a kernel left on its device: read by the program only when it asks, and found there
// by the next kernel without its help.
#pragma once

#include "core/tensor/tensor.h"
#include "platform/error.h"

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

inline void check_device_number(const char* what, const Tensor& x, DType dtype) {
  check(x.dtype() == dtype && x.numel() == 1, "{}: got {} {}, want one {}", what,
        name_of(x.dtype()), x.shape(), name_of(dtype));
}

// Where kernels find a number that need not be there: null for an undefined tensor. Error unless it
// is one f32, or one f64.
inline const float* device_float(const Tensor& x) {
  if (!x.defined()) return nullptr;
  check_device_number("device_float", x, DType::f32);
  return static_cast<const float*>(x.data());
}
inline const double* device_double(const Tensor& x) {
  if (!x.defined()) return nullptr;
  check_device_number("device_double", x, DType::f64);
  return static_cast<const double*>(x.data());
}

}  // namespace booster
