// fp8 against an emulation written out in double: quantize, multiply, scale. Casts and scale rules
// have their own tests in tests/kernels/fp8_test.cpp.
#include "mixed_precision/fp8.h"

#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/layers.h"
#include "core/nn/losses.h"
#include "core/nn/models/mlp.h"
#include "core/nn/models/vit.h"
#include "core/nn/multi_head_attention.h"
#include "core/optim/adam.h"
#include "core/optim/sgd.h"
#include "core/tensor/memory_report.h"
#include "core/tensor/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace booster;
using doctest::Contains;

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

// The nearest number (ties to even) with `digits` binary digits, above the smallest subnormal.
double rounded(double x, int digits, int smallest, double most) {
  if (x == 0) return 0;
  const double step = std::ldexp(1.0, std::max(std::ilogb(x) - digits + 1, smallest));
  return std::clamp(std::nearbyint(x / step) * step, -most, most);
}
double as_fp8(double x, Fp8Format format) {
  return format == Fp8Format::e4m3 ? rounded(x, 4, -9, 448) : rounded(x, 3, -16, 57344);
}

// The numbers that x stands for after quantizing with an f32 scale.
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

// Equal up to `relative` of the value and the order of sums of terms of the size `magnitude`.
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

// One scale of delayed scaling, in plain words.
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

struct Trial {
  Model model;
  Optimizer optimizer;
  FP8MixedPrecision precision;
};

Trial trial(Model model, FP8Options options) {
  Optimizer optimizer = SGD(model.parameters(), {.lr = 0.05});
  Trial made{model, optimizer, FP8MixedPrecision(std::move(options))};
  made.precision.prepare(made.model, made.optimizer);
  return made;
}

Tensor forward(Trial& t, const Tensor& x) {
  const PolicyScope numbers(t.precision.policy({}));
  Tensor y = t.model(x);
  if (y.requires_grad()) t.precision.end_pass(Pass::forward);
  return y;
}

void backward(Trial& t, const Tensor& y, const Tensor& g) {
  t.optimizer.zero_grad();
  booster::backward(y, {.grad = g});
  t.precision.end_pass(Pass::backward);
}

Tensor bf16(Tensor x) { return untracked::cast(x, DType::bf16); }

// The linear layer `weight`, `bias` of one step, forward and backward, with the given scales.
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

// A batch whose size and magnitude change from step to step, as real ones do.
Tensor batch(int step, int64_t columns) {
  Generator generator(200 + static_cast<uint64_t>(step) + static_cast<uint64_t>(columns));
  const double size = 0.5 + step * 1.7;
  return uniform({3, 5 + step % 2, columns}, -size, size, {}, generator);
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

Model classifier() {
  manual_seed(7);
  return models::mlp({32, 64, 64, 16});
}

// Learnable classes with noisy labels, so that the final loss is far from 0.
struct Task {
  Tensor x, labels;
};
Task task() {
  Generator generator(9);
  const Tensor x = uniform({256, 32}, -1, 1, {}, generator);
  const Tensor truth = uniform({32, 16}, -1, 1, {}, generator);
  const Tensor noise = uniform({256, 16}, -2, 2, {}, generator);
  return {x, argmax(matmul(x, truth) + noise, 1)};
}

double final_loss(Precision& precision) {
  const Task given = task();
  Model model = classifier();
  Optimizer optimizer = AdamW(model.parameters(), {.lr = 3e-3, .weight_decay = 0.01});
  precision.prepare(model, optimizer);
  double loss_value = 0;
  for (int step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    Tensor loss;
    {
      const PolicyScope numbers(precision.policy({}));
      const Tensor y = model(given.x);
      precision.end_pass(Pass::forward);
      loss = cross_entropy(y, given.labels);
    }
    booster::backward(loss);
    precision.end_pass(Pass::backward);
    const Verdict verdict = precision.inspect(optimizer);
    if (verdict.found_inf.defined()) CHECK(verdict.found_inf.item() == 0);
    optimizer.step();
    precision.update(verdict);
    loss_value = loss.item();
  }
  return loss_value;
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
  // The input's scale moves, the weight's codes do not.
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

TEST_CASE("what backward keeps of an activation is one byte a number") {
  constexpr int64_t rows = 256, in = 512, out = 16;
  Trial t = trial(Model(std::make_shared<Linear>(in, out)), {});
  const Tensor y = forward(t, full({rows, in}, 1));
  int64_t kept = 0;
  for (const MemoryUse& use : memory_use())
    if (use.tag == "activations of Linear") kept = use.live_bytes;
  const int64_t codes = rows * in, result = rows * out * 2;
  CHECK(kept >= codes + result);
  CHECK(kept < codes + result + 4096);  // and scales; allocations are rounded up
}

TEST_CASE("projections of attention run in 8 bits, also one third at a time") {
  manual_seed(5);
  auto attention = std::make_shared<MultiHeadAttention>(32, 2);
  Trial t = trial(Model(attention), {.scaling = "current"});
  CHECK(t.precision.layers() == std::vector<std::string>{"in_proj", "out_proj"});
  CHECK(t.precision.notes().empty());
  const Tensor x = batch(0, 32);
  const PolicyScope numbers(t.precision.policy({}));
  const Numbers packed = (*attention)(x).to_vector<double>();
  const Numbers thirds = attention->attend(x, x, x).to_vector<double>();
  double largest_difference = 0, largest_value = 0;
  for (size_t i = 0; i < packed.size(); ++i) {
    largest_difference = std::max(largest_difference, std::abs(packed[i] - thirds[i]));
    largest_value = std::max(largest_value, std::abs(packed[i]));
  }
  CHECK(largest_difference < 0.1 * largest_value);  // a third has a scale of its own
  CHECK(largest_difference > 0);
  const Numbers exact = [&] {
    const PolicyScope none(nullptr);
    return (*attention)(x).to_vector<double>();
  }();
  CHECK(exact != packed);
}

TEST_CASE("layers whose sizes do not fit run in bf16 and are named with the reason") {
  const Model vit =
      models::vit("vit_tiny_patch16_224", {.num_classes = 10, .img_size = 32, .depth = 1});
  const Trial t = trial(vit, {});
  CHECK(t.precision.layers() == std::vector<std::string>{"blocks.0.attn.qkv", "blocks.0.attn.proj",
                                                         "blocks.0.mlp.fc1", "blocks.0.mlp.fc2"});
  REQUIRE(t.precision.notes().size() == 1);
  CHECK(t.precision.notes()[0] ==
        "fp8: head (192 in, 10 out) runs in bf16: 8-bit matrix units want sizes that are "
        "multiples of 16");
  // Not one layer fits: everything runs as in bf16.
  Trial none = trial(models::mlp({6, 10, 4}), {});
  CHECK(
      none.precision.notes() ==
      std::vector<std::string>{"fp8: 0 (6 in, 10 out), 2 (10 in, 4 out) run in bf16: 8-bit matrix "
                               "units want sizes that are multiples of 16",
                               "fp8: no layer runs in 8 bits"});
  CHECK(forward(none, uniform({4, 6}, -1, 1)).dtype() == DType::bf16);
}

TEST_CASE("layers can be kept in bf16: by name, by the name of a module, the first and the last") {
  const Model vit =
      models::vit("vit_tiny_patch16_224", {.num_classes = 16, .img_size = 32, .depth = 2});
  const Trial t =
      trial(vit, {.exclude = {"blocks.0", "blocks.1.mlp.fc1"}, .first_and_last_in_bf16 = true});
  CHECK(t.precision.layers() ==
        std::vector<std::string>{"blocks.1.attn.qkv", "blocks.1.attn.proj", "blocks.1.mlp.fc2"});
  CHECK(t.precision.notes().back() == "fp8: head runs in bf16: first_and_last_in_bf16");
  CHECK_THROWS_WITH_AS(trial(vit, {.exclude = {"blocks.1.mlp.fc3"}}),
                       Contains("did you mean blocks.1.mlp.fc"), Error);
}

TEST_CASE("wrong options are refused with the legal ones") {
  CHECK_THROWS_WITH_AS(FP8MixedPrecision({.scaling = "mxfp8"}), Contains("delayed, current"),
                       Error);
  CHECK_THROWS_WITH_AS(FP8MixedPrecision({.format = "e5m2"}), Contains("too few digits"), Error);
  CHECK_THROWS_WITH_AS(FP8MixedPrecision({.amax_history_len = 0}), Contains("at least 1"), Error);
  CHECK_THROWS_WITH_AS(FP8MixedPrecision({.amax_compute_algo = "mean"}), Contains("most_recent"),
                       Error);
  CHECK_THROWS_WITH_AS(FP8MixedPrecision({.margin = -1}), Contains("margin"), Error);
}

TEST_CASE("an infinity or nan that a cast would hide is found") {
  for (const char* scaling : {"delayed", "current"})
    for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
      Trial t = trial(Model(std::make_shared<Linear>(16, 16, LinearOptions{.bias = false})),
                      {.scaling = scaling});
      const auto step = [&](double value) {
        const Tensor y = forward(t, full({4, 16}, 1));
        backward(t, y, bf16(full({4, 16}, value)));
        const Verdict verdict = t.precision.inspect(t.optimizer);
        const double found = verdict.found_inf.item();
        t.precision.update(verdict);
        return found != 0;
      };
      CHECK_FALSE(step(1));
      CHECK(step(bad));
      CHECK_FALSE(step(1));
    }
}

TEST_CASE("evaluation does not count for the scales") {
  Trial t = trial(Model(std::make_shared<Linear>(16, 16)), {});
  const auto states = [&] {
    Numbers all;
    for (const auto& [name, tensor] : t.precision.state_tensors())
      if (name != "fp8.forward.amax")  // a weight's magnitude is the same in evaluation
        for (const double x : tensor.to_vector<double>()) all.push_back(x);
    return all;
  };
  const Numbers before = states();
  {
    const NoGradGuard no_grad;
    forward(t, full({4, 16}, 100));
  }
  CHECK(states() == before);
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
        t.precision.end_pass(Pass::forward);
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

TEST_CASE("a small net trains to within 2 % of the final loss of fp32") {
  FP32Precision fp32;
  const double want = final_loss(fp32);
  CHECK(want > 0.1);  // or the comparison says nothing
  for (const char* scaling : {"delayed", "current"}) {
    CAPTURE(scaling);
    FP8MixedPrecision fp8({.scaling = scaling});
    CHECK(final_loss(fp8) == doctest::Approx(want).epsilon(0.02));
    CHECK(fp8.layers().size() == 3);
  }
}

TEST_CASE("pipelines are refused where magnitudes would have to agree between different layers") {
  const FP8MixedPrecision delayed, current({.scaling = "current"}), alone({.reduce_amax = false});
  CHECK_FALSE(delayed.interaction({.pipeline = 2}).supported);
  CHECK(current.interaction({.pipeline = 2}).supported);
  CHECK(alone.interaction({.pipeline = 2}).supported);
  CHECK(delayed.interaction({.data = 4}).supported);
  CHECK(delayed.interaction({.data = 4}).ranks_agree);
}

TEST_CASE("a GPU without 8-bit matrix units is told by name and capability") {
  CHECK(fp8_capability("NVIDIA H100", 9, 0).empty());
  CHECK(fp8_capability("NVIDIA L4", 8, 9).empty());
  CHECK(fp8_capability("NVIDIA A100", 8, 0).starts_with("NVIDIA A100 has compute capability 8.0"));
}
