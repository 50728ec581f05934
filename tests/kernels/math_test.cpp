// The vectorised functions of kernels/numbers/math.h against the C library in double, over floats
// of all magnitudes and signs (every 2003rd bit pattern, including subnormals, infinities, nans).
#include "kernels/catalogue.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

using namespace booster;
using kernels::UnaryOp;
using kernels::View;

namespace {

const std::vector<float>& all_floats() {
  static const std::vector<float> floats = [] {
    std::vector<float> values;
    for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += 2003)
      values.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    for (const float edge : {0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY, NAN, 88.7228f, 88.7229f,
                             -87.3366f, -103.98f, 1e-45f, 1.1754942e-38f, 3.4028235e38f})
      values.push_back(edge);
    return values;
  }();
  return floats;
}

View row(const std::vector<float>& values) {
  const auto n = static_cast<int64_t>(values.size());
  return {.data = const_cast<float*>(values.data()), .ndim = 1, .shape = {n}, .strides = {1}};
}

// Returns the distance in units in the last place of `want`.
double ulps(float got, double want) {
  const auto nearest = static_cast<float>(want);
  if (std::isnan(want)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(nearest) || std::isinf(got)) return got == nearest ? 0 : INFINITY;
  const double size = std::abs(nearest);
  const double unit = std::nextafter(float(size), INFINITY) - size;
  return std::abs(got - want) / (std::isfinite(unit) ? unit : 0x1p104);
}
double distance(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : INFINITY;
  return got == want ? 0 : std::abs(got - want);
}

// Returns the error, relative for results above 1. -inf gives nan, although the limit is 0.
double gelu_error(float got, double want) {
  return std::isnan(want) ? 0 : distance(got, want) / std::max(1.0, std::abs(want));
}

struct Worst {
  double error = 0;
  float at = 0;
};

using Function = double (*)(double);
using Error = double (*)(float got, double want);

// Checks on every CPU variant that the largest error(got, want) over x >= from is at most
// `allowed`. run(variant's table, y, x) writes y.
void check_function(const std::function<void(const kernels::Table&, View, View)>& run,
                    Function function, Error error, double allowed, double from = -INFINITY) {
  const std::vector<float>& x = all_floats();
  std::vector<float> y(x.size());
  std::vector<double> want(x.size());
  for (size_t i = 0; i < x.size(); ++i) want[i] = function(x[i]);
  const std::string chosen = kernels::cpu_variant();
  for (const std::string& variant : kernels::cpu_variants()) {
    CAPTURE(variant);
    kernels::force_cpu_variant(variant);
    run(kernels::on({}), row(y), row(x));
    Worst worst;
    for (size_t i = 0; i < x.size(); ++i) {
      if (x[i] < from) continue;
      const double e = error(y[i], want[i]);
      if (!(e <= worst.error)) worst = {e, x[i]};
    }
    CAPTURE(worst.at);
    CHECK(worst.error <= allowed);
  }
  kernels::force_cpu_variant(chosen);
}

void check_op(UnaryOp op, Function function, Error error, double allowed, double from = -INFINITY) {
  check_function([=](const kernels::Table& on, View y, View x) { on.unary(op, y, x); }, function,
                 error, allowed, from);
}

// Checks the derivative of an op whose backward pass does not read y.
void check_slope(UnaryOp op, Function function, double allowed) {
  const std::vector<float> ones(all_floats().size(), 1.0f);
  check_function([&](const kernels::Table& on, View dx,
                     View x) { on.unary_backward(op, dx, row(ones), x, x); },
                 function, gelu_error, allowed);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return x > 40 ? x : std::log1p(std::exp(x)); }
double gelu(double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double gelu_slope(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
}
double gelu_tanh(double x) {
  return x * sigmoid(2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
}
double gelu_tanh_slope(double x) {
  if (std::abs(x) > 1e19) return NAN;  // x^2 overflows, in PyTorch too: any value is accepted
  if (std::abs(x) > 1000) return x > 0;
  const double v = 2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return sigmoid(v) +
         x * sigmoid(v) * sigmoid(-v) * 2 * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

}  // namespace

TEST_CASE("exp is within 1.1 units in the last place, subnormal results and overflow included") {
  check_op(UnaryOp::exp, std::exp, ulps, 1.1);
}
TEST_CASE("expm1 is within 3.2 units in the last place, also around 0") {
  check_op(UnaryOp::expm1, std::expm1, ulps, 3.2);
}
TEST_CASE("log is within 0.9 units in the last place; nan below 0, -inf at 0") {
  check_op(UnaryOp::log, std::log, ulps, 0.9);
}
TEST_CASE("tanh is within 1.4 units in the last place") {
  check_op(UnaryOp::tanh, std::tanh, ulps, 1.4);
}
TEST_CASE("erf is within 1.5 units in the last place") {
  check_op(UnaryOp::erf, std::erf, ulps, 1.5);
}
TEST_CASE("sigmoid is within 2.5 units in the last place where the result is normal") {
  check_op(UnaryOp::sigmoid, sigmoid, ulps, 2.5, -87.3);
}
TEST_CASE("sin and cos are within 1.8 units in the last place, also of large angles") {
  check_op(UnaryOp::sin, std::sin, ulps, 1.8);
  check_op(UnaryOp::cos, std::cos, ulps, 1.8);
}
TEST_CASE("pow is within 1 unit in the last place for any exponent; nan, 0 and inf as std::pow") {
  static double exponent;
  for (const double value : {2.5, -1.7, 0.1, 1e-3, -30.0, 5.0, 77.5, -0.0}) {
    CAPTURE(value);
    exponent = double(float(value));
    check_function([](const kernels::Table& on, View y,
                      View x) { on.binary_scalar(kernels::BinaryOp::pow, y, x, exponent, false); },
                   [](double x) { return std::pow(x, exponent); }, ulps, 1);
  }
}
TEST_CASE("sqrt is correctly rounded") { check_op(UnaryOp::sqrt, std::sqrt, ulps, 0.5); }
TEST_CASE("softplus is within 2.6 units in the last place, also where it is small") {
  check_op(UnaryOp::softplus, softplus, ulps, 2.6);
}
TEST_CASE("gelu is within 2e-7 of max(1, result) in both forms") {
  check_op(UnaryOp::gelu, gelu, gelu_error, 2e-7);
  check_op(UnaryOp::gelu_tanh, gelu_tanh, gelu_error, 2e-7);
}
TEST_CASE("the slope of gelu is within 3e-7 in both forms") {
  check_slope(UnaryOp::gelu, gelu_slope, 3e-7);
  check_slope(UnaryOp::gelu_tanh, gelu_tanh_slope, 3e-7);
}
