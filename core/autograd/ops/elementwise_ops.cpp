// Elementwise functions: the rows of kernels/elementwise.def with their tape records.
#include "core/autograd/functions.h"
#include "core/autograd/node.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/op_recorder.h"
#include "core/autograd/ops/elementwise_slopes.h"
#include "core/autograd/overwrite.h"
#include "core/autograd/tape.h"
#include "core/tensor/channels_last.h"
#include "core/tensor/held_number.h"
#include "kernels/catalogue.h"

#include <cmath>
#include <string_view>

namespace booster {

using kernels::BinaryOp;
using kernels::CompareOp;
using kernels::UnaryOp;

namespace {

// Returns true if a derivative's text mentions the one-letter variable, which must then be saved.
constexpr bool mentions(std::string_view formula, char variable) {
  auto is_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (size_t i = 0; i < formula.size(); ++i) {
    const bool starts = i == 0 || !is_word(formula[i - 1]);
    const bool ends = i + 1 == formula.size() || !is_word(formula[i + 1]);
    if (formula[i] == variable && starts && ends) return true;
  }
  return false;
}

// Tensors that a derivative reads besides the gradient: x or y of a unary function; a, b or y of a
// binary one.
struct Needs {
  bool x, a, b, y;
};
constexpr Needs needs_of(std::string_view formula) {
  return {mentions(formula, 'x'), mentions(formula, 'a'), mentions(formula, 'b'),
          mentions(formula, 'y')};
}

struct Row {
  const char* name;
  Op op;
  Needs of_first, of_second = {};  // of the derivative by each operand

  // Returns the needs of the wanted derivatives.
  Needs needs(bool first, bool second) const {
    const auto has = [&](bool Needs::*one) {
      return (first && of_first.*one) || (second && of_second.*one);
    };
    return {has(&Needs::x), has(&Needs::a), has(&Needs::b), has(&Needs::y)};
  }
};

constexpr Row unary_rows[] = {
#define UNARY(name, value, derivative) {#name, Op::name, needs_of(#derivative)},
#include "kernels/elementwise.def"
};
constexpr Row binary_rows[] = {
#define BINARY(name, value, da, db) {#name, Op::name, needs_of(#da), needs_of(#db)},
#include "kernels/elementwise.def"
};

// Returns true for functions with integer results for integers. All others convert integers to f32
// first.
bool keeps_integers(UnaryOp op) {
  return op == UnaryOp::neg || op == UnaryOp::abs || op == UnaryOp::square || op == UnaryOp::relu ||
         op == UnaryOp::sign || op == UnaryOp::floor || op == UnaryOp::round;
}

void check_device(const char* name, const Tensor& a, const Tensor& b) {
  check(a.defined() && b.defined(), "{}: argument is undefined", name);
  check(a.device() == b.device(), "{}: arguments are on different devices", name);
}

// Returns true if the op accepts masks. As in torch, a mask has no sign and no fraction, and a
// minus could be mistaken for inversion.
bool takes_bool(UnaryOp op) {
  return !keeps_integers(op) || op == UnaryOp::square || op == UnaryOp::sign;
}

void check_numbers(const char* name, bool has_mask) {
  check(!has_mask,
        "{}: masks are not supported; got a bool tensor, want numbers (to(DType::i64)); "
        "equal(mask, 0) inverts a mask, not_equal(a, b) compares two",
        name);
}

Tensor unary(UnaryOp kind, Tensor x) {
  const Row& row = unary_rows[static_cast<int>(kind)];
  check(x.defined(), "{}: argument is undefined", row.name);
  check_numbers(row.name, x.dtype() == DType::boolean && !takes_bool(kind));
  apply_policy(row.op, {&x});
  const Tensor given = op_recorder ? x : Tensor();
  if (!is_floating(x.dtype()) && !keeps_integers(kind)) x = untracked::cast(x, DType::f32);
  if (kind == UnaryOp::square && x.dtype() == DType::boolean) x = untracked::cast(x, DType::i64);
  Tensor y = empty_in_order_of(x, x.dtype());
  kernels::on(x.device()).unary(kind, y.view(), x.view());
  if (!is_watched({x})) return y;
  if (op_recorder) [[unlikely]] note_op(row.name, {given}, {y});
  const SavedInput saved_x = row.of_first.x ? SavedInput(x) : SavedInput();
  const SavedResult saved_y = row.of_first.y ? SavedResult(y) : SavedResult();
  return record(y, row.name, {x}, twice([=](const Tensor& g, Gradients& d) {
    const Tensor sx = saved_x, sy = saved_y.get(d);
    if (grad_enabled()) {
      d[0] = unary_slope(kind, g, sx, sy);
      return;
    }
    d[0] = room_in_place_of(g, g);
    const auto g_view = g.view();  // stands in for operands that the formula does not read
    kernels::on(g.device())
        .unary_backward(kind, d[0].view(), g_view, sx.defined() ? sx.view() : g_view,
                        sy.defined() ? sy.view() : g_view);
  }));
}

// Returns x expanded to a shape, or `stand_in` if x was not saved.
kernels::View expanded(const Tensor& x, const Shape& shape, const kernels::View& stand_in) {
  return x.defined() ? untracked::expand(x, shape).view() : stand_in;
}

struct Operand {
  Shape shape;
  DType dtype;
};

// Returns a recorded gradient, reduced to the operand's shape by summing over broadcast dimensions.
Tensor fitted(const Tensor& d, const Operand& operand) {
  return cast(sum_to(d, operand.shape), operand.dtype);
}

// Returns the gradient of one operand, directly in its own dtype if no broadcast dimension must be
// summed.
Tensor operand_gradient(BinaryOp kind, int which, const Tensor& g, kernels::View a, kernels::View b,
                        kernels::View y, const Operand& operand) {
  const auto& [shape, dtype] = operand;
  const bool whole = shape == g.shape();
  if (whole && dtype == g.dtype() && (kind == BinaryOp::add || (kind == BinaryOp::sub && !which)))
    return g;
  Tensor d = empty_in_order_of(g, whole ? dtype : g.dtype());
  kernels::on(g.device()).binary_backward(kind, which, d.view(), g.view(), a, b, y);
  return untracked::cast(untracked::sum_to(d, shape), dtype);
}

// Returns memory for a result of a and b, in the memory order of an operand with that shape.
Tensor empty_for(const Tensor& a, const Tensor& b, const Shape& shape, DType dtype) {
  const bool by_b = b.shape() == shape && (a.shape() != shape || !is_channels_last(a));
  return empty_in_order_of(by_b ? b : a, shape, {dtype, a.device()});
}

DType result_dtype(BinaryOp kind, DType promoted) {
  return kind == BinaryOp::div && !is_floating(promoted) ? DType::f32 : promoted;
}

bool is_dimensioned(const Tensor& x) { return x.ndim() > 0; }

// Returns true if kernels that compute in the promoted dtype `dtype` convert x as a cast would.
// They compute 16-bit floats in f32, and an x without dimensions may have a wider dtype.
bool is_converted_alike(const Tensor& x, DType dtype) {
  return x.dtype() == dtype || (is_dimensioned(x) && !is_16_bit(dtype));
}

// Returns true for functions whose gradients compare their operands. As in torch, both operands
// then have the result's dtype.
bool has_ties(BinaryOp kind) { return kind == BinaryOp::maximum || kind == BinaryOp::minimum; }

// Throws, as torch does, for differences with masks and for powers of masks.
void check_numbers(BinaryOp kind, const char* name, DType a, DType b) {
  const bool is_a = a == DType::boolean, is_b = b == DType::boolean;
  if (kind == BinaryOp::sub) check_numbers(name, is_a || is_b);
  if (kind == BinaryOp::pow) check_numbers(name, is_a && is_b);
}

Tensor binary(BinaryOp kind, Tensor a, Tensor b) {
  const Row& row = binary_rows[static_cast<int>(kind)];
  check_device(row.name, a, b);
  check_numbers(kind, row.name, a.dtype(), b.dtype());
  apply_policy(row.op, {&a, &b});
  const DType dtype = promoted(a, b);
  if (has_ties(kind))
    for (Tensor* x : {&a, &b})
      if (!is_converted_alike(*x, dtype)) *x = cast(*x, dtype);
  const Shape shape = broadcast_shapes(row.name, a.shape(), b.shape());
  Tensor y = empty_for(a, b, shape, result_dtype(kind, dtype));
  kernels::on(y.device())
      .binary(kind, y.view(), untracked::expand(a, shape).view(),
              untracked::expand(b, shape).view());
  if (!is_watched({a, b})) return y;
  const Needs saved = row.needs(a.requires_grad(), b.requires_grad());
  const SavedInput saved_a = saved.a ? SavedInput(a) : SavedInput(),
                   saved_b = saved.b ? SavedInput(b) : SavedInput();
  const SavedResult saved_y = saved.y ? SavedResult(y) : SavedResult();
  const Operand of_a{a.shape(), a.dtype()}, of_b{b.shape(), b.dtype()};
  return record(y, row.name, {a, b}, twice([=](const Tensor& g, Gradients& d) {
    const Needs read = row.needs(d.wanted(0), d.wanted(1));
    const Tensor sa = read.a ? saved_a.get() : Tensor(), sb = read.b ? saved_b.get() : Tensor(),
                 sy = read.y ? saved_y.get(d) : Tensor();
    if (grad_enabled()) {
      if (d.wanted(0)) d[0] = fitted(binary_slope(kind, 0, g, sa, sb, sy), of_a);
      if (d.wanted(1)) d[1] = fitted(binary_slope(kind, 1, g, sa, sb, sy), of_b);
      return;
    }
    const auto g_view = g.view();
    const auto va = expanded(sa, g.shape(), g_view), vb = expanded(sb, g.shape(), g_view),
               vy = expanded(sy, g.shape(), g_view);
    if (d.wanted(0)) d[0] = operand_gradient(kind, 0, g, va, vb, vy, of_a);
    if (d.wanted(1)) d[1] = operand_gradient(kind, 1, g, va, vb, vy, of_b);
  }));
}

bool is_whole(double value) {
  return std::abs(value) < 0x1p63 && value == static_cast<double>(static_cast<int64_t>(value));
}

bool holds(DType dtype, double whole) {
  if (dtype == DType::u8) return whole >= 0 && whole <= 255;
  return dtype != DType::i32 || std::abs(whole + 0.5) < 0x1p31;
}

// Throws for a bound that the result cannot hold. As in torch, that is any bound beyond a floating
// dtype. For integers it is an error only where the bound would be the result.
void check_bound(const char* name, DType dtype, double bound, bool is_least) {
  if (is_floating(dtype)) return check_held(name, bound, dtype);
  if (!is_whole(bound)) return check_held(name, bound, DType::f32);  // the result's
  check(holds(dtype, bound) || is_least == (bound < 0),
        "{}: the bound is outside the dtype's range; got {} for {}", name, bound, name_of(dtype));
}

// Throws for a scalar that the result's dtype would change.
void check_scalar(BinaryOp kind, const char* name, DType dtype, double value, bool scalar_first) {
  if (has_ties(kind)) check_bound(name, dtype, value, kind == BinaryOp::maximum);
  if (kind != BinaryOp::pow || scalar_first) return;
  if (is_16_bit(dtype)) check_held("pow", value, dtype);
  if (is_floating(dtype) || !is_whole(value)) return;
  check(value >= 0,
        "pow: negative powers of integers are not integers; got {} of {}, want a floating tensor",
        value, name_of(dtype));
  check_held("pow", value, dtype);
}

// Returns the value rounded to a floating dtype.
double rounded(double value, DType dtype) { return scalar(value, {.dtype = dtype}).item(); }

// Returns a scalar as an operand of the backward kernel: one double, broadcast.
kernels::View constant_view(const double& value, const kernels::View& like) {
  kernels::View view = like;
  view.data = const_cast<double*>(&value);
  view.device = {};  // even with operands on a GPU: the value travels with the call
  view.dtype = DType::f64;
  for (int i = 0; i < view.ndim; ++i) view.strides[i] = 0;
  return view;
}

Tensor binary_scalar(BinaryOp kind, Tensor x, double value, bool scalar_first) {
  const Row& row = binary_rows[static_cast<int>(kind)];
  check(x.defined(), "{}: argument is undefined", row.name);
  check_numbers(row.name, kind == BinaryOp::sub && x.dtype() == DType::boolean);
  apply_policy(row.op, {&x});
  DType dtype = x.dtype();
  check_scalar(kind, row.name, dtype, value, scalar_first);
  if (!is_floating(dtype))
    dtype = is_whole(value)
                ? result_dtype(kind, promote(dtype, dtype == DType::boolean ? DType::i64 : dtype))
                : DType::f32;
  Tensor y = empty_in_order_of(x, dtype);
  kernels::on(x.device()).binary_scalar(kind, y.view(), x.view(), value, scalar_first);
  if (!is_watched({x})) return y;
  if (op_recorder) [[unlikely]]
    note_op(row.name, {x}, {y}, {{"number", value}, {"number_first", scalar_first}});
  if (has_ties(kind) && is_floating(dtype)) value = rounded(value, dtype);
  const Needs needs = row.needs(true, true);
  const SavedInput saved_x = needs.a || needs.b ? SavedInput(x) : SavedInput();
  const SavedResult saved_y = needs.y ? SavedResult(y) : SavedResult();
  return record(y, row.name, {x}, twice([=](const Tensor& g, Gradients& d) {
    const Tensor sx = saved_x, sy = saved_y.get(d);
    const int which = scalar_first ? 1 : 0;
    const Operand operand{g.shape(), g.dtype()};
    if (grad_enabled()) {
      if (kind == BinaryOp::pow && !scalar_first && value == 0) {
        d[0] = zeros_like(g);  // x^0 is 1 for every x
        return;
      }
      const Tensor number = scalar(value, {DType::f64, g.device()});
      const Tensor &a = scalar_first ? number : sx, &b = scalar_first ? sx : number;
      d[0] = fitted(binary_slope(kind, which, g, a, b, sy), operand);
      return;
    }
    const auto g_view = g.view();
    const auto vx = expanded(sx, g.shape(), g_view), vy = expanded(sy, g.shape(), g_view),
               number = constant_view(value, g_view);
    d[0] = operand_gradient(kind, which, g, scalar_first ? number : vx, scalar_first ? vx : number,
                            vy, operand);
  }));
}

// Compares in the promoted dtype, as torch does.
Tensor compare(const char* name, CompareOp kind, Tensor a, Tensor b) {
  check_device(name, a, b);
  const Tensor given_a = op_recorder ? a : Tensor(), given_b = op_recorder ? b : Tensor();
  const DType dtype = promoted(a, b);
  for (Tensor* x : {&a, &b})
    if (!is_converted_alike(*x, dtype)) *x = untracked::cast(*x, dtype);
  const Shape shape = broadcast_shapes(name, a.shape(), b.shape());
  Tensor truth = empty_for(a, b, shape, DType::boolean);
  kernels::on(a.device())
      .compare(kind, truth.view(), untracked::expand(a, shape).view(),
               untracked::expand(b, shape).view());
  if (op_recorder) [[unlikely]] note_op(name, {given_a, given_b}, {truth});
  return truth;
}

// Returns the number to compare x with. For a floating x it is rounded to x's dtype, and may become
// infinity. For other dtypes it stays an integer if x's dtype holds it; otherwise it becomes f32.
Tensor comparand(const char* name, const Tensor& x, double value) {
  check(x.defined(), "{}: argument is undefined", name);
  DType dtype = x.dtype() == DType::boolean ? DType::i64 : x.dtype();
  if (!is_floating(dtype) && !(is_whole(value) && holds(dtype, value))) dtype = DType::f32;
  return scalar(dtype == DType::f32 ? static_cast<float>(value) : value, {dtype, x.device()});
}

int category(DType dtype) { return dtype == DType::boolean ? 0 : (is_floating(dtype) ? 2 : 1); }

}  // namespace

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (category(a) != category(b)) return category(a) > category(b) ? a : b;
  if (category(a) == 2) {
    if (a == DType::f64 || b == DType::f64) return DType::f64;
    return DType::f32;  // f32 with 16 bits, or f16 with bf16
  }
  return size_of(a) > size_of(b) ? a : b;
}

// Promotes as torch does: a tensor without dimensions matters only if it is of a higher category.
DType promoted(const Tensor& a, const Tensor& b) {
  if (is_dimensioned(a) != is_dimensioned(b)) {
    const DType array = is_dimensioned(a) ? a.dtype() : b.dtype();
    const DType zero_dim = is_dimensioned(a) ? b.dtype() : a.dtype();
    if (category(array) >= category(zero_dim)) return array;
  }
  return promote(a.dtype(), b.dtype());
}

#define UNARY(name, ...) \
  Tensor name(const Tensor& x) { return unary(UnaryOp::name, x); }
#define BINARY(name, ...)                                                                       \
  Tensor name(const Tensor& a, const Tensor& b) { return binary(BinaryOp::name, a, b); }        \
  Tensor name(const Tensor& a, double b) { return binary_scalar(BinaryOp::name, a, b, false); } \
  Tensor name(double a, const Tensor& b) { return binary_scalar(BinaryOp::name, b, a, true); }
#define COMPARE(name, ...)                                                                        \
  Tensor name(const Tensor& a, const Tensor& b) { return compare(#name, CompareOp::name, a, b); } \
  Tensor name(const Tensor& a, double b) {                                                        \
    return compare(#name, CompareOp::name, a, comparand(#name, a, b));                            \
  }
#include "kernels/elementwise.def"

Tensor clamp(const Tensor& x, std::optional<double> low, std::optional<double> high) {
  check(low || high, "clamp: want at least one bound");
  check(x.defined(), "clamp: argument is undefined");
  if (low) check_bound("clamp", x.dtype(), *low, true);
  if (high) check_bound("clamp", x.dtype(), *high, false);
  Tensor y, is_inside;
  if (is_floating(x.dtype())) {
    y = empty_in_order_of(x, x.dtype());
    kernels::on(x.device()).clamp(y.view(), x.view(), rounded(low.value_or(-INFINITY), x.dtype()),
                                  rounded(high.value_or(INFINITY), x.dtype()));
    if (!is_watched({x})) return y;
    const NoGradGuard no_grad;
    if (low) is_inside = greater(x, *low);
    if (high) is_inside = low ? mul(is_inside, less(x, *high)) : less(x, *high);
  } else {
    const NoGradGuard no_grad;
    const bool keeps_dtype = x.dtype() != DType::boolean && is_whole(low.value_or(0)) &&
                             is_whole(high.value_or(0));
    if (low && high && keeps_dtype && !op_recorder) {
      y = empty_in_order_of(x, x.dtype());
      kernels::on(x.device()).clamp(y.view(), x.view(), *low, *high);
      return y;
    }
    y = low ? maximum(x, *low) : x;
    if (high) y = minimum(y, *high);
    return y;
  }
  // At a bound the gradient is 0, as in PyTorch since 2.15.
  const Saved inside(is_inside);
  return record(y, "clamp", {x}, twice([inside, dtype = x.dtype()](const Tensor& g, Gradients& d) {
                  const Tensor zero = zeros({}, {g.dtype(), g.device()});
                  d[0] = cast(where(inside.get(), g, zero), dtype);
                }));
}

Tensor where(const Tensor& condition, const Tensor& a_, const Tensor& b_) {
  Tensor a = a_, b = b_;
  check_device("where", a, b);
  check_device("where", condition, a);
  check(condition.dtype() == DType::boolean, "where: condition must be bool; got {}",
        name_of(condition.dtype()));
  apply_policy(Op::where, {&a, &b});
  const Shape shape =
      broadcast_shapes("where", condition.shape(), broadcast_shapes("where", a.shape(), b.shape()));
  const DType dtype = promoted(a, b);
  Tensor y = a.shape() == shape || b.shape() == shape
                 ? empty_for(a, b, shape, dtype)
                 : empty_in_order_of(condition, shape, {dtype, a.device()});
  const Tensor mask = untracked::expand(condition, shape);
  kernels::on(y.device())
      .where(y.view(), mask.view(), untracked::expand(a, shape).view(),
             untracked::expand(b, shape).view());
  if (op_recorder) [[unlikely]] note_op("where", {condition, a, b}, {y});
  return record(
      y, "where", {a, b},
      twice([mask = Saved(mask), of_a = Operand{a.shape(), a.dtype()},
             of_b = Operand{b.shape(), b.dtype()}](const Tensor& g, Gradients& d) {
        const Tensor zero = zeros({}, {g.dtype(), g.device()});
        if (d.wanted(0)) d[0] = fitted(where(mask, g, zero), of_a);
        if (d.wanted(1)) d[1] = fitted(where(mask, zero, g), of_b);
      }));
}

}  // namespace booster
