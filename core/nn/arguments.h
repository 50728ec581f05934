// The checks that functions in this folder make on entry, and the errors that they raise.
#pragma once

#include "core/autograd/op_policy.h"
#include "core/tensor/tensor.h"

namespace booster::arguments {

// x is defined and floating.
void floating(const char* op, const char* name, const Tensor& x);
// The argument is undefined or has exactly this shape.
void optional_shape(const char* op, const char* name, const Tensor& x, const Shape& shape);
// The argument is undefined or has x's dtype: matrix products and convolutions do not mix dtypes.
void same_dtype(const char* op, const char* name, const Tensor& argument, const Tensor& x);
// The same, but f32 is also allowed with a 16-bit x: scales and shifts of a normalisation.
void parameter_dtype(const char* op, const char* name, const Tensor& argument, const Tensor& x);
// Class numbers or positions as dense i64.
Tensor indices(const char* op, const char* name, const Tensor& x);
// p is in [0, 1].
void probability(const char* op, const char* name, double p);

// The dtype in which statistics of x are kept: f64 for f64, else f32.
inline DType statistics_dtype(const Tensor& x) {
  return x.dtype() == DType::f64 ? DType::f64 : DType::f32;
}

}  // namespace booster::arguments
