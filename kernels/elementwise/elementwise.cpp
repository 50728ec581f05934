// Elementwise kernels: selects the row of elementwise.def and the compute type. Each device applies
// a row to all elements in its own way: kernels/elementwise/cpu_map.h,
// kernels/cuda/elementwise/map.cuh.
#include "kernels/catalogue.h"

#ifdef BOOSTER_ON_GPU
#include "kernels/cuda/elementwise/chosen.cuh"
#include "kernels/cuda/elementwise/map.cuh"
#else
#include "kernels/elementwise/cpu_map.h"
#endif

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

// Calls f with a value of the compute type of a dtype.
template <class F>
void with_compute_type(DType dtype, F&& f) {
  if (dtype == DType::f64) return f(double{});
  if (is_floating(dtype)) return f(float{});
  return f(int64_t{});
}

// The same for derivatives, which exist only for floating types.
template <class F>
void with_floating_type(DType dtype, F&& f) {
  if (dtype == DType::f64) return f(double{});
  return f(float{});
}

// Returns the compute type that holds both; floating with bool or integers gives the floating one.
DType wider(DType a, DType b) {
  if (a == DType::f64 || b == DType::f64) return DType::f64;
  return is_floating(a) ? a : b;
}

// On a GPU, f64, integers and rare rows share one kernel per kind, which chooses the row. The CPU
// has one loop per row, so that each vectorises.
template <class C, auto op>
constexpr bool has_own_loop() {
#ifdef BOOSTER_ON_GPU
  return __is_same(C, float) && is_frequent(op);
#else
  return true;
#endif
}
#ifdef BOOSTER_ON_GPU
#define MAP_CHOSEN(inputs, ...) map<C, inputs>(views, __VA_ARGS__)
#else
#define MAP_CHOSEN(...)
#endif

template <class C>
void unary_as(UnaryOp op, const View* const* views) {
  switch (op) {
#define UNARY(name, ...)                                                                          \
  case UnaryOp::name:                                                                             \
    if constexpr (has_own_loop<C, UnaryOp::name>()) return map<C, 1>(views, unary_value::name()); \
    break;
#include "kernels/elementwise.def"
  }
  MAP_CHOSEN(1, ChosenUnary{op});
}

template <class C>
void unary_backward_as(UnaryOp op, const View* const* views) {
  switch (op) {
#define UNARY(name, ...)                                                                          \
  case UnaryOp::name:                                                                             \
    if constexpr (has_own_loop<C, UnaryOp::name>()) return map<C, 3>(views, unary_slope::name()); \
    break;
#include "kernels/elementwise.def"
  }
  MAP_CHOSEN(3, ChosenUnarySlope{op});
}

template <class C>
void binary_as(BinaryOp op, const View* const* views) {
  switch (op) {
#define BINARY(name, ...)                            \
  case BinaryOp::name:                               \
    if constexpr (has_own_loop<C, BinaryOp::name>()) \
      return map<C, 2>(views, binary_value::name()); \
    break;
#include "kernels/elementwise.def"
  }
  MAP_CHOSEN(2, ChosenBinary{op});
}

template <class C>
void binary_backward_as(BinaryOp op, int which, const View* const* views) {
  switch (op) {
#define BINARY(name, ...)                                           \
  case BinaryOp::name:                                              \
    if constexpr (has_own_loop<C, BinaryOp::name>())                \
      return which == 0 ? map<C, 4>(views, binary_slope_a::name())  \
                        : map<C, 4>(views, binary_slope_b::name()); \
    break;
#include "kernels/elementwise.def"
  }
  MAP_CHOSEN(4, ChosenBinarySlope{op, which});
}

template <class C>
void compare_as(CompareOp op, const View* const* views) {
  switch (op) {
#define COMPARE(name, ...)                               \
  case CompareOp::name:                                  \
    if constexpr (has_own_loop<C, CompareOp::name>())    \
      return map_truth<C, 2>(views, comparison::name()); \
    break;
#include "kernels/elementwise.def"
  }
  MAP_CHOSEN(2, ChosenComparison{op});
}

#undef MAP_CHOSEN

// Computes y = x^exponent if that needs no logarithm.
template <class C>
bool simple_power(const View* const* views, double exponent) {
  if (exponent == 0.5) return unary_as<C>(UnaryOp::sqrt, views), true;
  if (exponent == -0.5) return unary_as<C>(UnaryOp::rsqrt, views), true;
  if (exponent == -1) return unary_as<C>(UnaryOp::reciprocal, views), true;
  if (exponent == 2) return unary_as<C>(UnaryOp::square, views), true;
  if (exponent == 3) return map<C, 1>(views, Cube()), true;
  if (exponent == -2) return map<C, 1>(views, InverseSquare()), true;
  return false;
}

// Returns true if the view is one number in host memory.
bool is_host_number(const View& view) {
  if (view.device.type != DeviceType::cpu || view.dtype != DType::f64) return false;
  for (int i = 0; i < view.ndim; ++i)
    if (view.shape[i] > 1 && view.strides[i] != 0) return false;
  return true;
}

// Returns a view of one value in host memory, broadcast to the shape of `like`.
View broadcast_value(const View& like, DType dtype, void* value) {
  View view = like;
  view.data = value;
  view.device = {};
  view.dtype = dtype;
  for (int i = 0; i < view.ndim; ++i) view.strides[i] = 0;
  return view;
}

#ifndef BOOSTER_ON_GPU
// Returns the integer nearest to a whole number or an infinity.
int64_t whole(double number) {
  if (number >= 0x1p63) return INT64_MAX;
  return number < -0x1p63 ? INT64_MIN : static_cast<int64_t>(number);
}
#endif

}  // namespace

void unary(UnaryOp op, View y, View x) {
  const View* views[] = {&y, &x};
  with_compute_type(x.dtype, [&](auto c) { unary_as<decltype(c)>(op, views); });
}

void unary_backward(UnaryOp op, View dx, View g, View x, View y) {
  const View* views[] = {&dx, &g, &x, &y};
  with_floating_type(wider(dx.dtype, g.dtype),
                     [&](auto c) { unary_backward_as<decltype(c)>(op, views); });
}

void binary(BinaryOp op, View y, View a, View b) {
  const View* views[] = {&y, &a, &b};
  with_compute_type(wider(y.dtype, wider(a.dtype, b.dtype)),
                    [&](auto c) { binary_as<decltype(c)>(op, views); });
}

void binary_scalar(BinaryOp op, View y, View a, double scalar, bool scalar_first) {
  // An integer tensor keeps integer arithmetic, so its scalar is an integer too.
  int64_t integer = static_cast<int64_t>(scalar);
  const bool floating = is_floating(y.dtype);
  const View b =
      floating ? broadcast_value(a, DType::f64, &scalar) : broadcast_value(a, DType::i64, &integer);
  if (op == BinaryOp::pow && floating && !scalar_first) {
    const View* of_power[] = {&y, &a};
    bool is_done = false;
    with_floating_type(wider(y.dtype, a.dtype),
                       [&](auto c) { is_done = simple_power<decltype(c)>(of_power, scalar); });
    if (is_done) return;
  }
  const View* views[] = {&y, scalar_first ? &b : &a, scalar_first ? &a : &b};
  with_compute_type(wider(y.dtype, a.dtype), [&](auto c) { binary_as<decltype(c)>(op, views); });
}

void binary_backward(BinaryOp op, int which, View d, View g, View a, View b, View y) {
  const View* views[] = {&d, &g, &a, &b, &y};
  if (op == BinaryOp::pow && which == 0 && g.dtype != DType::f64 && is_host_number(b) &&
      *b.as<double>() == 3 && is_floating(a.dtype))
    return with_floating_type(wider(d.dtype, g.dtype), [&](auto c) {
      const View* of_slope[] = {&d, &g, &a};
      map<decltype(c), 2>(of_slope, CubeSlope());
    });
  with_floating_type(wider(d.dtype, g.dtype),
                     [&](auto c) { binary_backward_as<decltype(c)>(op, which, views); });
}

void compare(CompareOp op, View truth, View a, View b) {
  const View* views[] = {&truth, &a, &b};
  with_compute_type(wider(a.dtype, b.dtype), [&](auto c) { compare_as<decltype(c)>(op, views); });
}

void where(View y, View condition, View a, View b) {
  const View* views[] = {&y, &condition, &a, &b};
#ifndef BOOSTER_ON_GPU
  if (a.dtype == y.dtype && b.dtype == y.dtype && condition.dtype == DType::boolean)
    return select_same_dtype(views);
#endif
  with_compute_type(y.dtype, [&](auto c) { map<decltype(c), 3>(views, Select()); });
}

void clamp(View y, View x, double low, double high) {
#ifdef BOOSTER_ON_GPU  // a call carries one number
  binary_scalar(BinaryOp::maximum, y, x, low, false);
  binary_scalar(BinaryOp::minimum, y, y, high, false);
#else
  int64_t whole_low = whole(low), whole_high = whole(high);
  const bool floating = is_floating(y.dtype);
  const auto bound = [&](double& number, int64_t& integer) {
    return floating ? broadcast_value(x, DType::f64, &number)
                    : broadcast_value(x, DType::i64, &integer);
  };
  const View least = bound(low, whole_low), most = bound(high, whole_high);
  const View* views[] = {&y, &x, &least, &most};
  with_compute_type(y.dtype, [&](auto c) { map<decltype(c), 3>(views, Clamp()); });
#endif
}

void copy(View out, View in) {
  const View* views[] = {&out, &in};
#ifndef BOOSTER_ON_GPU
  if (out.dtype == in.dtype) return copy_same_dtype(views);
#endif
  const DType compute = is_floating(in.dtype) ? wider(in.dtype, out.dtype) : in.dtype;
  with_compute_type(compute, [&](auto c) { convert<decltype(c)>(views); });
}

void fill(View out, double value) {
  // Every number except 0 is true, including fractions.
  int64_t integer = out.dtype == DType::boolean ? value != 0 : static_cast<int64_t>(value);
#ifdef BOOSTER_ON_GPU
  if (!is_floating(out.dtype)) return copy(out, broadcast_value(out, DType::i64, &integer));
  // A copy in f32 writes whole quads.
  if (float narrow = static_cast<float>(value); narrow == value)
    return copy(out, broadcast_value(out, DType::f32, &narrow));
  copy(out, broadcast_value(out, DType::f64, &value));
#else
  uint64_t stored = 0;
  if (is_floating(out.dtype)) store_any(&stored, out.dtype, 0, value);
  else store_any(&stored, out.dtype, 0, integer);
  copy(out, broadcast_value(out, out.dtype, &stored));
#endif
}

void accumulate(View out, View in) {
  const View* views[] = {&out, &out, &in};
  with_compute_type(wider(out.dtype, in.dtype),
                    [&](auto c) { map<decltype(c), 2>(views, binary_value::add()); });
}

void accumulate_scaled(View out, View in, double factor) {
  int64_t integer = static_cast<int64_t>(factor);
  const View number = is_floating(out.dtype) ? broadcast_value(out, DType::f64, &factor)
                                             : broadcast_value(out, DType::i64, &integer);
  const View* views[] = {&out, &out, &in, &number};
  with_compute_type(wider(out.dtype, in.dtype),
                    [&](auto c) { map<decltype(c), 3>(views, AddScaled()); });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
