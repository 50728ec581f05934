// The rows of elementwise.def as one function of each kind, which selects its row at run time. For
// what is rare on a GPU, f64, integers and most rows: nvcc takes half a second for each kernel, and
// there would be hundreds, one per row and dtype.
#pragma once

#include "kernels/catalogue.h"
#include "kernels/elementwise/elementwise_math.h"

namespace booster::kernels::BOOSTER_VARIANT {

// The rows with kernels of their own in f32: those that models and optimizers call for every
// activation or weight.
constexpr bool is_frequent(UnaryOp op) {
  switch (op) {
    case UnaryOp::neg:
    case UnaryOp::square:
    case UnaryOp::exp:
    case UnaryOp::log:
    case UnaryOp::sqrt:
    case UnaryOp::rsqrt:
    case UnaryOp::reciprocal:
    case UnaryOp::tanh:
    case UnaryOp::sigmoid:
    case UnaryOp::relu:
    case UnaryOp::silu:
    case UnaryOp::gelu:
    case UnaryOp::gelu_tanh: return true;
    default: return false;
  }
}
constexpr bool is_frequent(BinaryOp op) {
  switch (op) {
    case BinaryOp::add:
    case BinaryOp::sub:
    case BinaryOp::mul:
    case BinaryOp::div:
    case BinaryOp::maximum:
    case BinaryOp::minimum:
    case BinaryOp::leaky_relu:
    case BinaryOp::squared_difference:
    case BinaryOp::swiglu: return true;
    default: return false;
  }
}
constexpr bool is_frequent(CompareOp) { return false; }

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
