// Numbers that a kernel left on its device. The next kernel finds them there; the program reads
// them only on demand.
#pragma once

#include "core/tensor/tensor.h"
#include "platform/error.h"

#include <utility>

namespace booster {

// One number that is read only when it is converted to double, which waits for the device. Shares
// the given tensor, which must not be written afterwards.
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

// Return a kernel's pointer to an optional number: null for an undefined tensor. Error unless it is
// one f32, or one f64.
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
