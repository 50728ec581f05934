// Argument checks of the functions in this folder, with the errors that they throw.
#pragma once

#include "core/autograd/op_policy.h"
#include "core/tensor/tensor.h"

namespace booster::arguments {

// Checks that x is defined and floating.
void floating(const char* op, const char* name, const Tensor& x);
// Checks that the argument is undefined or has exactly this shape.
void optional_shape(const char* op, const char* name, const Tensor& x, const Shape& shape);
// Checks that the argument is undefined or has x's dtype; matrix products and convolutions do not
// mix dtypes.
void same_dtype(const char* op, const char* name, const Tensor& argument, const Tensor& x);
// Checks like same_dtype, but also allows f32 with a 16-bit x, for scales and shifts of a
// normalisation.
void parameter_dtype(const char* op, const char* name, const Tensor& argument, const Tensor& x);
// Returns class indices or positions as dense i64.
Tensor indices(const char* op, const char* name, const Tensor& x);
// Checks that p is in [0, 1].
void probability(const char* op, const char* name, double p);

// Returns the dtype of x's statistics: f64 for f64, else f32.
inline DType statistics_dtype(const Tensor& x) {
  return x.dtype() == DType::f64 ? DType::f64 : DType::f32;
}

}  // namespace booster::arguments
