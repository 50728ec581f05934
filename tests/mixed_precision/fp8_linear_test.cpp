// fp8's products against an emulation in double: quantize, multiply, scale.
// tests/kernels/fp8_test.cpp tests casts and scale rules.
#include "core/autograd/functions.h"
#include "core/tensor/memory/memory_report.h"
#include "tests/mixed_precision/fp8_trial.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace booster;
using namespace booster::testing;

namespace {

using Numbers = std::vector<double>;

// A matrix in double.
struct Matrix {
  int64_t rows, columns;
  Numbers values;
  double at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * columns + j)]; }
  double largest() const {
    double most = 0;
    for (const double x : values) most = std::max(most, std::abs(x));
    return most;
  }
};

Matrix matrix(const Tensor& x) {
  return {x.numel() / x.shape().back(), x.shape().back(), x.to_vector<double>()};
}

Matrix transposed(const Matrix& x) {
  Matrix y{x.columns, x.rows, {}};
  for (int64_t j = 0; j < x.columns; ++j)
    for (int64_t i = 0; i < x.rows; ++i) y.values.push_back(x.at(i, j));
  return y;
}

// Returns the nearest value (ties to even) with `digits` binary digits, above the smallest
// subnormal.
double rounded(double x, int digits, int smallest, double most) {
  if (x == 0) return 0;
  const double step = std::ldexp(1.0, std::max(std::ilogb(x) - digits + 1, smallest));
  return std::clamp(std::nearbyint(x / step) * step, -most, most);
}
double as_fp8(double x, Fp8Format format) {
  return format == Fp8Format::e4m3 ? rounded(x, 4, -9, 448) : rounded(x, 3, -16, 57344);
}

// Returns the values of x after quantizing with an f32 scale.
Matrix quantized(const Matrix& x, float scale, Fp8Format format) {
  Matrix y = x;
  const double inverse = 1.0f / scale;
  for (double& value : y.values)
    value = as_fp8(double{static_cast<float>(value) * scale}, format) * inverse;
  return y;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix y{a.rows, b.columns, {}};
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < b.columns; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < a.columns; ++k) sum += a.at(i, k) * b.at(k, j);
      y.values.push_back(sum);
    }
  return y;
}

// Checks equality up to `relative` of the value, and up to the order of sums of terms of size
// `magnitude`.
void check_close(const Tensor& got, const Matrix& want, double relative, double magnitude) {
  const Numbers values = got.to_vector<double>();
  REQUIRE(values.size() == want.values.size());
  int wrong = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double allowed = std::abs(want.values[i]) * relative + magnitude * 0x1p-20;
    if (std::abs(values[i] - want.values[i]) <= allowed || ++wrong > 3) continue;
    FAIL_CHECK("element " << i << ": got " << values[i] << ", want " << want.values[i]);
  }
}
constexpr double half_bf16 = 0x1.01p-8, f32_sums = 0x1p-20;

// A reference for one scale of delayed scaling.
struct DelayedScale {
  double largest;
  size_t length;
  float scale = 1;
  std::vector<double> history = {};
  void see(double amax) {
    history.push_back(amax);
    if (history.size() > length) history.erase(history.begin());
    const double most = *std::max_element(history.begin(), history.end());
    if (most > 0) scale = static_cast<float>(largest) / static_cast<float>(most);
  }
};

// Checks one step of the linear layer `weight`, `bias`, forward and backward, with the given
// scales.
void check_step(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y,
                const Tensor& g, float sx, float sw, float sg, Fp8Format gradients) {
  const Matrix qx = quantized(matrix(bf16(x.detach())), sx, Fp8Format::e4m3);
  const Matrix qw = quantized(matrix(weight), sw, Fp8Format::e4m3);
  const Matrix qg = quantized(matrix(g), sg, gradients);
  Matrix want = product(qx, transposed(qw));
  const Numbers offset = bf16(bias.detach()).to_vector<double>();
  for (size_t i = 0; i < want.values.size(); ++i) want.values[i] += offset[i % offset.size()];
  CHECK(y.dtype() == DType::bf16);
  const double terms = static_cast<double>(x.shape().back());
  check_close(y, want, half_bf16, qx.largest() * qw.largest() * terms);
  CHECK(weight.grad().dtype() == DType::f32);
  check_close(weight.grad(), product(transposed(qg), qx), f32_sums,
              qx.largest() * qg.largest() * static_cast<double>(qx.rows));
  check_close(x.grad(), product(qg, qw), half_bf16,
              qw.largest() * qg.largest() * static_cast<double>(qw.rows));
  Matrix columns{1, qg.columns, Numbers(static_cast<size_t>(qg.columns))};
  const Matrix plain = matrix(g);
  for (int64_t i = 0; i < plain.rows; ++i)
    for (int64_t j = 0; j < plain.columns; ++j)
      columns.values[static_cast<size_t>(j)] += plain.at(i, j);
  check_close(bias.grad(), columns, f32_sums, plain.largest() * static_cast<double>(plain.rows));
}

void check_delayed(const char* format, const char* algorithm) {
  CAPTURE(format);
  CAPTURE(algorithm);
  manual_seed(1);
  const Fp8Format gradients = std::string(format) == "hybrid" ? Fp8Format::e5m2 : Fp8Format::e4m3;
  auto layer = std::make_shared<Linear>(32, 48);
  Trial t = trial(Model(layer),
                  {.format = format, .amax_history_len = 3, .amax_compute_algo = algorithm});
  const size_t window = std::string(algorithm) == "max" ? 3 : 1;
  DelayedScale sx{448, window}, sw{448, window}, sg{largest(gradients), window};
  for (const int step : {0, 3, 1, 0, 2, 0, 0, 0}) {
    const Tensor x = batch(step, 32).requires_grad_();
    const Tensor y = forward(t, x);
    const Tensor gradient = bf16(batch(step, 48));
    backward(t, y, gradient);
    check_step(x, layer->weight, layer->bias, y, gradient, sx.scale, sw.scale, sg.scale, gradients);
    sx.see(matrix(bf16(x.detach())).largest());
    sw.see(matrix(layer->weight).largest());
    sg.see(matrix(gradient).largest());
    t.optimizer.step();
  }
}

}  // namespace

TEST_CASE("delayed scaling: forward and gradients equal a plain emulation, step by step") {
  check_delayed("hybrid", "max");
  check_delayed("hybrid", "most_recent");
  check_delayed("e4m3", "max");
}

TEST_CASE("current scaling: forward and gradients equal a plain emulation") {
  for (const bool power_of_two : {false, true}) {
    manual_seed(2);
    auto layer = std::make_shared<Linear>(16, 32);
    Trial t = trial(Model(layer), {.scaling = "current", .power_of_two_scales = power_of_two});
    const auto scale = [&](const Tensor& x, Fp8Format format) {
      const float exact = largest(format) / static_cast<float>(matrix(x).largest());
      return power_of_two ? std::ldexp(1.0f, std::ilogb(exact)) : exact;
    };
    for (int step = 0; step < 3; ++step) {
      const Tensor x = batch(step, 16).requires_grad_();
      const Tensor y = forward(t, x);
      const Tensor g = bf16(batch(step, 32));
      backward(t, y, g);
      check_step(x, layer->weight, layer->bias, y, g, scale(bf16(x.detach()), Fp8Format::e4m3),
                 scale(layer->weight, Fp8Format::e4m3), scale(g, Fp8Format::e5m2), Fp8Format::e5m2);
      t.optimizer.step();
    }
  }
}

TEST_CASE("a weight is quantized once per update, with the scale of that time") {
  manual_seed(3);
  auto layer = std::make_shared<Linear>(16, 16);
  Trial t = trial(Model(layer), {});
  const Tensor x = batch(0, 16);
  const Numbers first = forward(t, x).to_vector<double>();
  // The input's scale changes, the weight's codes do not.
  const Matrix qw = quantized(matrix(layer->weight), 1, Fp8Format::e4m3);
  const float sx = 448 / static_cast<float>(matrix(bf16(x)).largest());
  Matrix want = product(quantized(matrix(bf16(x)), sx, Fp8Format::e4m3), transposed(qw));
  const Numbers offset = bf16(layer->bias.detach()).to_vector<double>();
  for (size_t i = 0; i < want.values.size(); ++i) want.values[i] += offset[i % offset.size()];
  check_close(forward(t, x), want, half_bf16, 4);
  {
    const NoGradGuard no_grad;
    Tensor(layer->weight).mul_(0.5);
  }
  CHECK(forward(t, x).to_vector<double>() != first);
}

TEST_CASE("delayed scaling: a weight that is not trained gets its scale all the same") {
  manual_seed(4);
  auto layer = std::make_shared<Linear>(16, 16);
  Trial t = trial(Model(layer), {});
  const Tensor x = batch(0, 16), g = bf16(batch(2, 16));
  for (int step = 0; step < 2; ++step) backward(t, forward(t, x), g);  // without an update
  const float sx = 448 / static_cast<float>(matrix(bf16(x)).largest());
  const float sw = 448 / static_cast<float>(matrix(layer->weight).largest());
  Matrix want = product(quantized(matrix(bf16(x)), sx, Fp8Format::e4m3),
                        transposed(quantized(matrix(layer->weight), sw, Fp8Format::e4m3)));
  const Numbers offset = bf16(layer->bias.detach()).to_vector<double>();
  for (size_t i = 0; i < want.values.size(); ++i) want.values[i] += offset[i % offset.size()];
  check_close(forward(t, x), want, half_bf16, 4);
}

TEST_CASE("magnitudes whose product is beyond f32 still give what the numbers stand for") {
  auto layer = std::make_shared<Linear>(16, 16, LinearOptions{.bias = false});
  {
    const NoGradGuard no_grad;
    Tensor(layer->weight).zero_();
  }
  Trial t = trial(Model(layer), {.scaling = "current"});
  Tensor(layer->weight).view().as<float>()[0] = 1e22f;
  Tensor x = zeros({1, 16});
  x.view().as<float>()[1] = 1e30f;
  CHECK(forward(t, x).to_vector<double>() == Numbers(16, 0));
}

TEST_CASE("what backward keeps of an activation is one byte a number") {
  constexpr int64_t rows = 256, in = 512, out = 16;
  Trial t = trial(Model(std::make_shared<Linear>(in, out)), {});
  const Tensor y = forward(t, full({rows, in}, 1));
  int64_t kept = 0;
  for (const MemoryUse& use : memory_use())
    if (use.tag == "activations of Linear") kept = use.live_bytes;
  const int64_t codes = rows * in, result = rows * out * 2;
  CHECK(kept >= codes + result);
  CHECK(kept < codes + result + 4096);  // plus scales; allocations are rounded up
}

TEST_CASE("an activation checkpoint gives the same gradients") {
  const auto gradients = [](bool checkpointed) {
    manual_seed(6);
    auto layer = std::make_shared<Linear>(16, 16);
    Trial t = trial(Model(layer), {.amax_history_len = 4});
    std::vector<Numbers> all;
    for (int step = 0; step < 3; ++step) {
      const Tensor x = batch(step, 16).requires_grad_();
      Tensor y;
      {
        const PolicyScope numbers(t.precision.policy({}));
        const auto run = [&](const std::vector<Tensor>& in) { return t.model(in[0]); };
        y = checkpointed ? checkpoint(run, {x}) : t.model(x);
        end_forward(t.precision);
      }
      backward(t, y, bf16(batch(step, 16)));
      all.push_back(x.grad().to_vector<double>());
      all.push_back(layer->weight.grad().to_vector<double>());
      t.optimizer.step();
    }
    return all;
  };
  CHECK(gradients(true) == gradients(false));
}
