// Pointers of kernels to numbers that an earlier kernel left on the device. Pure functions.
#pragma once

#include "core/tensor/tensor.h"
#include "platform/error.h"

namespace booster {

inline void check_device_number(const char* what, const Tensor& x, DType dtype) {
  check(x.dtype() == dtype && x.numel() == 1, "{}: got {} {}, want one {}", what,
        name_of(x.dtype()), x.shape(), name_of(dtype));
}

// Return a kernel's pointer to an optional number: null for an undefined tensor. Throws unless it
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
