// Driven by the op table: a new row is tested automatically.
#include "core/autograd/functions.h"
#include "kernels/catalogue.h"
#include "tests/autograd/gradient_check.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

using namespace booster;
using namespace booster::testing;

namespace {

struct UnaryRow {
  std::string name;
  Tensor (*function)(const Tensor&);
};
const UnaryRow unary_rows[] = {
#define UNARY(name, ...) {#name, &booster::name},
#include "kernels/elementwise.def"
};

struct BinaryRow {
  std::string name;
  Tensor (*function)(const Tensor&, const Tensor&);
  Tensor (*with_number)(const Tensor&, double);
  Tensor (*number_first)(double, const Tensor&);
};
const BinaryRow binary_rows[] = {
#define BINARY(name, ...) {#name, &booster::name, &booster::name, &booster::name},
#include "kernels/elementwise.def"
};

// Returns values in the domain of the function, away from the kinks at integers and half-integers.
Tensor domain(const std::string& name, const Shape& shape) {
  const bool positive =
      name.starts_with("log") || name == "sqrt" || name == "rsqrt" || name == "pow";
  if (name == "asin" || name == "acos" || name == "atanh") return random_f64(shape, 0.1, 0.9);
  if (name == "tan") return random_f64(shape, 0.1, 1.2);  // differences fail at the pole
  if (name == "acosh") return random_f64(shape, 1.1, 1.9);
  return add(random_f64(shape, positive ? 0.3 : 0.1, 1.9),
             name == "floor" || name == "round" || name == "ceil" || name == "trunc" ? 0.013 : 0);
}

// Returns the value of a row without an oracle below: by the row itself, in f64.
template <class Row, class... Numbers>
double by_itself(const Row& row, Numbers... numbers) {
  return row.function(scalar(numbers, {.dtype = DType::f64})...).item();
}

double oracle(const UnaryRow& row, double x) {
  const std::string& name = row.name;
  const double cdf = 0.5 * (1 + std::erf(x / std::sqrt(2.0)));
  const double inner = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  const double sigmoid = 1 / (1 + std::exp(-x));
  if (name == "neg") return -x;
  if (name == "abs") return std::abs(x);
  if (name == "square") return x * x;
  if (name == "exp") return std::exp(x);
  if (name == "expm1") return std::expm1(x);
  if (name == "log") return std::log(x);
  if (name == "sqrt") return std::sqrt(x);
  if (name == "rsqrt") return 1 / std::sqrt(x);
  if (name == "reciprocal") return 1 / x;
  if (name == "sin") return std::sin(x);
  if (name == "cos") return std::cos(x);
  if (name == "erf") return std::erf(x);
  if (name == "tanh") return std::tanh(x);
  if (name == "sigmoid") return sigmoid;
  if (name == "softplus") return std::log1p(std::exp(x));
  if (name == "relu") return x > 0 ? x : 0;
  if (name == "silu") return x * sigmoid;
  if (name == "gelu") return x * cdf;
  if (name == "gelu_tanh") return 0.5 * x * (1 + std::tanh(inner));
  if (name == "sign") return (x > 0) - (x < 0);
  if (name == "floor") return std::floor(x);
  if (name == "round") return std::nearbyint(x);
  if (name == "ceil") return std::ceil(x);
  if (name == "trunc") return std::trunc(x);
  if (name == "log2") return std::log2(x);
  if (name == "log10") return std::log10(x);
  if (name == "log1p") return std::log1p(x);
  if (name == "exp2") return std::exp2(x);
  if (name == "tan") return std::tan(x);
  if (name == "asin") return std::asin(x);
  if (name == "acos") return std::acos(x);
  if (name == "atan") return std::atan(x);
  if (name == "sinh") return std::sinh(x);
  if (name == "cosh") return std::cosh(x);
  if (name == "asinh") return std::asinh(x);
  if (name == "acosh") return std::acosh(x);
  if (name == "atanh") return std::atanh(x);
  if (name == "erfc") return std::erfc(x);
  if (name == "mish") return x * std::tanh(std::log1p(std::exp(x)));
  if (name == "hardsigmoid") return std::clamp(x / 6 + 0.5, 0.0, 1.0);
  if (name == "hardswish") return x * std::clamp(x / 6 + 0.5, 0.0, 1.0);
  if (name == "relu6") return std::clamp(x, 0.0, 6.0);
  if (name == "softsign") return x / (1 + std::abs(x));
  if (name == "logsigmoid") return -std::log1p(std::exp(-x));
  return by_itself(row, x);
}

double oracle(const BinaryRow& row, double a, double b) {
  const std::string& name = row.name;
  if (name == "add") return a + b;
  if (name == "sub") return a - b;
  if (name == "mul") return a * b;
  if (name == "div") return a / b;
  if (name == "pow") return std::pow(a, b);
  if (name == "maximum") return std::max(a, b);
  if (name == "minimum") return std::min(a, b);
  if (name == "swiglu") return a / (1 + std::exp(-a)) * b;
  if (name == "atan2") return std::atan2(a, b);
  if (name == "remainder") return a - std::floor(a / b) * b;
  if (name == "logaddexp") return std::log(std::exp(a) + std::exp(b));
  return by_itself(row, a, b);
}

// Returns the relative error allowed for one rounding and the vector math.
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64: return 1e-14;
    case DType::f32: return 6e-7;
    case DType::f16: return 1e-3;
    default: return 8e-3;
  }
}

void check_close(const Tensor& got, const std::vector<double>& want, DType dtype) {
  const auto values = got.to_vector<double>();
  REQUIRE(values.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    INFO("element " << i << ": got " << values[i] << ", want " << want[i]);
    CHECK(std::abs(values[i] - want[i]) <= tolerance(dtype) * (std::abs(want[i]) + 0.1));
  }
}

const DType floating[] = {DType::f32, DType::f64, DType::f16, DType::bf16};

}  // namespace

TEST_CASE("every unary op equals a plain loop in every dtype, size and layout") {
  for (const auto& row : unary_rows) {
    CAPTURE(row.name);
    for (const DType dtype : floating)
      for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{17}, Shape{3, 521}}) {
        const Tensor x = untracked::cast(domain(row.name, shape), dtype);
        std::vector<double> want;
        for (double v : x.to_vector<double>()) want.push_back(oracle(row, v));
        const Tensor y = row.function(x);
        CHECK(y.dtype() == dtype);
        check_close(y, want, dtype);
      }
    const Tensor strided = untracked::transpose(domain(row.name, {5, 7}), 0, 1);
    std::vector<double> want;
    for (double v : strided.to_vector<double>()) want.push_back(oracle(row, v));
    check_close(row.function(strided), want, DType::f64);
  }
}

TEST_CASE("every unary op's derivative agrees with differences") {
  for (const auto& row : unary_rows) {
    CAPTURE(row.name);
    auto fn = [&](const std::vector<Tensor>& x) { return row.function(x[0]); };
    check_gradients(fn, {domain(row.name, {2, 3})});
    if (std::isfinite(oracle(row, -1))) check_gradients(fn, {neg(domain(row.name, {5}))});
  }
}

TEST_CASE("every binary op equals a plain loop, with broadcasting") {
  for (const auto& row : binary_rows) {
    CAPTURE(row.name);
    for (const DType dtype : floating) {
      const Tensor a = untracked::cast(domain(row.name, {3, 1, 37}), dtype);
      const Tensor b = untracked::cast(domain(row.name, {2, 1}), dtype);
      const auto va = a.to_vector<double>(), vb = b.to_vector<double>();
      std::vector<double> want;
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 2; ++j)
          for (int k = 0; k < 37; ++k) want.push_back(oracle(row, va[i * 37 + k], vb[j]));
      check_close(row.function(a, b), want, dtype);
    }
  }
}

TEST_CASE("every binary op's derivatives agree with differences, also summed over broadcasts") {
  for (const auto& row : binary_rows) {
    CAPTURE(row.name);
    auto fn = [&](const std::vector<Tensor>& x) { return row.function(x[0], x[1]); };
    check_gradients(fn, {domain(row.name, {2, 3}), domain(row.name, {2, 3})});
    check_gradients(fn, {domain(row.name, {2, 1, 3}), domain(row.name, {4, 1})});
    check_gradients([&](const auto& x) { return row.with_number(x[0], 1.3); },
                    {domain(row.name, {4})});
    check_gradients([&](const auto& x) { return row.number_first(0.7, x[0]); },
                    {domain(row.name, {4})});
  }
}

TEST_CASE("dtypes of mixed arguments promote as in PyTorch") {
  auto of = [](DType dtype, const Shape& shape = {2}) { return ones(shape, {.dtype = dtype}); };
  CHECK(add(of(DType::f16), of(DType::f32)).dtype() == DType::f32);
  CHECK(add(of(DType::f16), of(DType::bf16)).dtype() == DType::f32);
  CHECK(add(of(DType::i32), of(DType::i64)).dtype() == DType::i64);
  CHECK(add(of(DType::i64), of(DType::f16)).dtype() == DType::f16);
  CHECK(add(of(DType::boolean), of(DType::u8)).dtype() == DType::u8);
  CHECK(mul(of(DType::f16), of(DType::f32, {})).dtype() == DType::f16);
  CHECK(mul(of(DType::i64), of(DType::f32, {})).dtype() == DType::f32);
  CHECK(mul(of(DType::bf16), 3.7).dtype() == DType::bf16);
  CHECK(mul(of(DType::i64), 3).dtype() == DType::i64);
  CHECK(mul(of(DType::i64), 0.5).dtype() == DType::f32);
  CHECK(div(of(DType::i64), 2).dtype() == DType::f32);
  CHECK(exp(of(DType::i32)).dtype() == DType::f32);
  CHECK(neg(of(DType::i32)).dtype() == DType::i32);
}

namespace {

// Returns whether abs(-0) is +0 in every element.
bool drops_sign_of_zero(const Shape& shape, DType dtype, Device device) {
  const Tensor x = full(shape, -0.0, {dtype, device}), y = abs(x);
  const auto before = x.to_vector<double>(), after = y.to_vector<double>();
  const auto has_sign = [](double number) { return std::signbit(number); };
  return std::ranges::all_of(before, has_sign) && std::ranges::none_of(after, has_sign);
}

}  // namespace

TEST_CASE("the size of a negative zero is zero, in every dtype and variant") {
  const std::string before = kernels::cpu_variant();
  for (const auto& variant : kernels::cpu_variants()) {
    kernels::force_cpu_variant(variant);
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
      for (const Shape& shape : {Shape{}, Shape{3}, Shape{1037}})
        CHECK(drops_sign_of_zero(shape, dtype, {}));
  }
  kernels::force_cpu_variant(before);
  CHECK(abs(from_vector<int64_t>({-3, 0, 4}, {3})).to_vector<int64_t>() ==
        std::vector<int64_t>{3, 0, 4});
}

TEST_CASE("GPU: the size of a negative zero is zero, in every dtype" * on_gpu()) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    CHECK(drops_sign_of_zero({1037}, dtype, gpu));
}

TEST_CASE("the gradient of an operand has the operand's dtype") {
  Tensor a = ones({3}, {.dtype = DType::bf16}).requires_grad_(), b = ones({2, 3}).requires_grad_();
  backward(sum(a * b));
  CHECK(a.grad().dtype() == DType::bf16);
  CHECK(a.grad().to_vector<float>() == std::vector<float>{2, 2, 2});
  CHECK(b.grad().dtype() == DType::f32);
}

TEST_CASE("comparisons give bool, and nan compares false") {
  const Tensor a = from_vector<float>({1, 2, NAN}, {3}), b = from_vector<float>({2, 2, 2}, {3});
  CHECK(less(a, b).to_vector<bool>() == std::vector<bool>{true, false, false});
  CHECK(equal(a, 2).to_vector<bool>() == std::vector<bool>{false, true, false});
  CHECK(not_equal(a, a).to_vector<bool>() == std::vector<bool>{false, false, true});
  const Tensor big = from_vector<int64_t>({(int64_t{1} << 53) + 1}, {1});
  CHECK_FALSE(equal(big, from_vector<int64_t>({int64_t{1} << 53}, {1})).item() != 0);
}

TEST_CASE("where chooses by element and splits the gradient") {
  const Tensor condition = from_vector<bool>({true, false, true}, {3});
  check_gradients([&](const auto& x) { return where(condition, x[0], x[1]); },
                  {random_f64({3}), random_f64({2, 3})});
  CHECK(where(condition, zeros({3}), ones({})).to_vector<float>() == std::vector<float>{0, 1, 0});
}

TEST_CASE("every CPU variant agrees with the portable one") {
  const std::string before = kernels::cpu_variant();
  for (const auto& row : unary_rows) {
    CAPTURE(row.name);
    for (const DType dtype : floating) {
      const Tensor x = untracked::cast(domain(row.name, {1037}), dtype);
      kernels::force_cpu_variant("portable");
      const auto want = row.function(x).to_vector<double>();
      for (const auto& variant : kernels::cpu_variants()) {
        kernels::force_cpu_variant(variant);
        check_close(row.function(x), want, dtype);
      }
    }
  }
  kernels::force_cpu_variant(before);
}

TEST_CASE("special values pass through the vector math") {
  const Tensor x = from_vector<float>({NAN, INFINITY, -INFINITY, 0, -0.0f, 1e-42f, 200, -200}, {8});
  const auto e = exp(x).to_vector<float>();
  CHECK(std::isnan(e[0]));
  CHECK(e[1] == INFINITY);
  CHECK(e[2] == 0);
  CHECK(e[3] == 1);
  CHECK(e[6] == INFINITY);
  CHECK(e[7] == 0);
  const auto l = log(x).to_vector<float>();
  CHECK(std::isnan(l[0]));
  CHECK(l[1] == INFINITY);
  CHECK(std::isnan(l[2]));
  CHECK(l[3] == -INFINITY);
  CHECK(std::abs(l[5] - std::log(1e-42f)) < 1e-4);
  CHECK(tanh(x).to_vector<float>()[6] == 1);
  CHECK(std::isnan(relu(x).to_vector<float>()[0]));
  CHECK(erf(x).to_vector<float>()[1] == 1);
}

TEST_CASE("shapes that do not broadcast are an error that names both") {
  CHECK_THROWS_WITH(add(zeros({2, 3}), zeros({4})),
                    "add: shapes do not broadcast; got (2, 3) and (4,)");
}
