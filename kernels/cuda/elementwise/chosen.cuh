// The rows of elementwise.def as one function of each kind, which selects its row at run time. For
// f64 and integers, which are rare on a GPU: nvcc takes half a second for each kernel, and there
// would be a hundred, one per row.
#pragma once

#include "kernels/catalogue.h"
#include "kernels/elementwise/elementwise_math.h"

namespace booster::kernels::BOOSTER_VARIANT {

struct ChosenUnary {
  UnaryOp op;
  template <class T>
  KERNEL_FN T operator()(T x) const {
    switch (op) {
#define UNARY(name, ...) \
  case UnaryOp::name:    \
    return unary_value::name()(x);
#include "kernels/elementwise.def"
    }
    return T(0);
  }
};

struct ChosenUnarySlope {
  UnaryOp op;
  template <class T>
  KERNEL_FN T operator()(T g, T x, T y) const {
    switch (op) {
#define UNARY(name, ...) \
  case UnaryOp::name:    \
    return unary_slope::name()(g, x, y);
#include "kernels/elementwise.def"
    }
    return T(0);
  }
};

struct ChosenBinary {
  BinaryOp op;
  template <class T>
  KERNEL_FN T operator()(T a, T b) const {
    switch (op) {
#define BINARY(name, ...) \
  case BinaryOp::name:    \
    return binary_value::name()(a, b);
#include "kernels/elementwise.def"
    }
    return T(0);
  }
};

struct ChosenBinarySlope {
  BinaryOp op;
  int which;  // 0: the slope for a
  template <class T>
  KERNEL_FN T operator()(T g, T a, T b, T y) const {
    switch (op) {
#define BINARY(name, ...)                                     \
  case BinaryOp::name:                                        \
    return which == 0 ? binary_slope_a::name()(g, a, b, y)    \
                      : binary_slope_b::name()(g, a, b, y);
#include "kernels/elementwise.def"
    }
    return T(0);
  }
};

struct ChosenComparison {
  CompareOp op;
  template <class T>
  KERNEL_FN T operator()(T a, T b) const {
    switch (op) {
#define COMPARE(name, ...) \
  case CompareOp::name:    \
    return comparison::name()(a, b);
#include "kernels/elementwise.def"
    }
    return T(0);
  }
};

}  // namespace booster::kernels::BOOSTER_VARIANT
