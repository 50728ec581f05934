// The loss of a linear layer without its logits, against the layer and cross_entropy.
#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/functional.h"
#include "core/nn/models/decoder.h"
#include "core/tensor/absence.h"
#include "core/tensor/computed_on_use.h"
#include "core/tensor/memory/allocator.h"
#include "tests/draws.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

using namespace booster;
using booster::testing::draws;

namespace {

struct Layer {
  Tensor x, weight, bias, target, class_weight;
  double smoothing;
  Reduction reduction;
  double scale;  // of the loss

  CrossEntropyOptions options() const {
    return {.weight = class_weight,
            .label_smoothing = smoothing,
            .ignore_index = 1,
            .reduction = reduction};
  }
};

struct LossAndGradients {
  Tensor loss, x, weight, bias;
};

LossAndGradients trained(const Layer& layer, bool fused) {
  const Tensor x = layer.x.clone().requires_grad_(), w = layer.weight.clone().requires_grad_();
  const Tensor b = layer.bias.defined() ? layer.bias.clone().requires_grad_() : Tensor();
  const Tensor loss = fused ? linear_cross_entropy(x, w, layer.target, b, layer.options())
                            : cross_entropy(linear(x, w, b), layer.target, layer.options());
  (loss * layer.scale).backward();
  return {loss, x.grad(), w.grad(), b.defined() ? b.grad() : Tensor()};
}

// The largest difference, over the largest number.
double relative_distance(const Tensor& a, const Tensor& b) {
  const auto wide = [](const Tensor& x) { return x.detach().to(DType::f64); };
  if (a.numel() == 0) return 0;
  const double size = amax(abs(wide(b))).item();
  const double most = amax(abs(wide(a) - wide(b))).item();
  return size > 0 ? most / size : most;
}

Layer drawn(unsigned seed, DType dtype) {
  std::mt19937 random(seed);
  const auto draw = [&](unsigned choices) { return static_cast<int64_t>(random() % choices); };
  manual_seed(seed);
  const int64_t rows = 1 + draw(40), features = 1 + draw(20), classes = 2 + draw(60);
  std::vector<int64_t> target;
  for (int64_t i = 0; i < rows; ++i) target.push_back(draw(static_cast<unsigned>(classes)));
  if (std::ranges::count(target, 1) == rows) target[0] = 0;
  const auto values = [&](const Shape& shape) { return normal(shape).to(dtype); };
  return {.x = values({rows, features}),
          .weight = values({classes, features}),
          .bias = draw(2) ? values({classes}) : Tensor(),
          .target = from_vector(target, {rows}),
          .class_weight = draw(3) == 0 ? uniform({classes}, 0.5, 2) : Tensor(),
          .smoothing = draw(2) ? 0.1 : 0,
          .reduction = draw(3) == 0 ? Reduction::sum : Reduction::mean,
          .scale = draw(2) ? 1.0 : 0.375};
}

int64_t peak_of(const std::function<void()>& work) {
  reset_peak_bytes();
  const int64_t before = allocator_stats().live_bytes;
  work();
  return allocator_stats().peak_bytes - before;
}

}  // namespace

TEST_CASE("linear_cross_entropy gives the layer's loss and gradients in every dtype") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const unsigned seed : draws(110)) {
      CAPTURE(seed);
      CAPTURE(std::string(name_of(dtype)));
      const Layer layer = drawn(seed, dtype);
      const LossAndGradients got = trained(layer, true), want = trained(layer, false);
      const double most = dtype == DType::f64   ? 1e-14
                          : dtype == DType::f32 ? 1e-6
                          : dtype == DType::f16 ? 4e-3
                                                : 2e-2;
      CHECK(got.loss.dtype() == want.loss.dtype());
      CHECK(got.loss.item() == want.loss.item());
      CHECK(got.x.dtype() == dtype);
      CHECK(relative_distance(got.x, want.x) <= most);
      CHECK(relative_distance(got.weight, want.weight) <= most);
      if (want.bias.defined()) CHECK(relative_distance(got.bias, want.bias) <= most);
    }
}

TEST_CASE("rows in several parts give what rows at once give") {
  // 2^24 logits at most: these take three parts.
  manual_seed(3);
  const int64_t rows = 21, classes = int64_t{1} << 21;
  const Layer layer = {.x = normal({rows, 2}),
                       .weight = normal({classes, 2}),
                       .bias = normal({classes}),
                       .target = arange(rows) * 7,
                       .class_weight = {},
                       .smoothing = 0,
                       .reduction = Reduction::mean,
                       .scale = 1};
  const LossAndGradients got = trained(layer, true), want = trained(layer, false);
  CHECK(got.loss.item() == doctest::Approx(want.loss.item()).epsilon(1e-6));
  CHECK(relative_distance(got.x, want.x) <= 1e-5);
  CHECK(relative_distance(got.weight, want.weight) <= 1e-5);
  CHECK(relative_distance(got.bias, want.bias) <= 1e-5);
}

// Without the loss scale the gradients of 4096 rows would be below the smallest f16.
TEST_CASE("f16 gradients keep a loss scale's range: small ones stay, and an overflow shows") {
  manual_seed(5);
  const int64_t rows = 4096, classes = 512;
  Layer layer = {.x = normal({rows, 8}).to(DType::f16),
                 .weight = (normal({classes, 8}) * 0.1).to(DType::f16),
                 .bias = {},
                 .target = arange(rows) - floor(arange(rows) / double(classes)) * double(classes),
                 .class_weight = {},
                 .smoothing = 0,
                 .reduction = Reduction::mean,
                 .scale = 1};
  layer.target = layer.target.to(DType::i64);
  for (const double scale : {1024.0, 65536.0}) {
    layer.scale = scale;
    const LossAndGradients got = trained(layer, true);
    Layer exact = layer;
    exact.x = layer.x.to(DType::f64);
    exact.weight = layer.weight.to(DType::f64);
    const LossAndGradients want = trained(exact, false);
    CHECK(relative_distance(got.x, want.x) <= 3e-3);
    CHECK(relative_distance(got.weight, want.weight) <= 3e-3);
  }
  layer.scale = 1e9;
  CHECK(std::isinf(amax(abs(trained(layer, true).weight.to(DType::f32))).item()));
}

TEST_CASE("a second backward of a kept graph adds the same gradients again") {
  const Layer layer = drawn(11, DType::f32);
  const Tensor w = layer.weight.clone().requires_grad_();
  const Tensor loss = linear_cross_entropy(layer.x, w, layer.target, {}, layer.options());
  backward(loss, {.retain_graph = true});
  const Tensor once = w.grad().clone();
  backward(loss, {.retain_graph = true});
  backward(loss);
  CHECK(relative_distance(w.grad(), once * 3) <= 1e-6);
}

TEST_CASE("logits that something reads are the layer's, before the loss and after it") {
  const Layer layer = drawn(4, DType::f32);
  const Tensor w = layer.weight.clone().requires_grad_();
  const Tensor want = linear(layer.x, w);
  const Tensor logits = linear_on_use(layer.x, w);
  CHECK_FALSE(has_memory(logits));
  const Tensor loss = cross_entropy(logits, layer.target);
  CHECK_FALSE(has_memory(logits));
  CHECK(logits.to_vector<float>() == want.to_vector<float>());
  CHECK(cross_entropy(logits, layer.target).item() == loss.item());
  sum(logits * logits).backward();
  const Tensor other = layer.weight.clone().requires_grad_(), y = linear(layer.x, other);
  sum(y * y).backward();
  CHECK(relative_distance(w.grad(), other.grad()) == 0);
}

TEST_CASE("logits that a loop holds keep their values when the optimizer steps") {
  const Layer layer = drawn(4, DType::f32);
  const Tensor w = layer.weight.clone().detach().requires_grad_();
  const std::vector<float> want = linear(layer.x, w).to_vector<float>();
  const Tensor logits = linear_on_use(layer.x, w), half = logits.to(DType::bf16);
  const Tensor part = reshape(logits, {-1});
  cross_entropy(logits, layer.target).backward();
  CHECK_FALSE(has_memory(logits));
  compute_unread();  // as an optimizer does
  {
    const NoGradGuard no_grad;
    Tensor(w).mul_(2);
  }
  CHECK(logits.to_vector<float>() == want);
  CHECK(part.to_vector<float>() == want);
  CHECK(half.to_vector<float>() ==
        untracked::cast(logits.detach(), DType::bf16).to_vector<float>());
}

TEST_CASE("logits first read after the weights changed are an error that says so") {
  Tensor w = normal({5, 4}).requires_grad_();
  const Tensor logits = linear_on_use(normal({3, 4}), w);
  {
    const NoGradGuard no_grad;
    w.mul_(2);
  }
  const std::string error = error_of([&] { logits.to_vector<float>(); });
  CHECK(error.find("want the result read before optimizer.step()") != std::string::npos);
}

TEST_CASE("a hook on the gradient of logits runs") {
  const Layer layer = drawn(6, DType::f32);
  const Tensor w = layer.weight.clone().requires_grad_();
  const Tensor logits = linear_on_use(layer.x, w);
  int calls = 0;
  register_grad_hook(logits, [&](const Tensor&) { return ++calls, Tensor(); });
  cross_entropy(logits, layer.target).backward();
  CHECK(calls == 1);
}

TEST_CASE("a target that is no class is an error with its row") {
  const Layer layer = drawn(6, DType::f32);
  const Tensor w = layer.weight.clone().requires_grad_();
  const Tensor target = full({layer.x.size(0)}, 1000, {.dtype = DType::i64});
  const std::string error = error_of([&] { linear_cross_entropy(layer.x, w, target); });
  CHECK(error.find("target is not a class; got 1000 in row 0") != std::string::npos);
}

TEST_CASE("a decoder's MLP keeps the arguments of swiglu and not its result") {
  const int64_t rows = 64, inner = 4096;
  const auto options = models::decoder_options(
      "llama",
      {.vocab_size = 8, .hidden_size = 4, .intermediate_size = inner, .num_attention_heads = 1});
  models::DecoderMlp mlp(options);
  const Tensor x = normal({rows, 4}).requires_grad_();
  const int64_t before = allocator_stats().live_bytes;
  const Tensor y = mlp(x);
  CHECK(allocator_stats().live_bytes - before < 5 * rows * inner * 4 / 2);
  sum(sin(y)).backward();
  const Tensor got = x.grad().clone(), of_weight = mlp.down_proj.weight.grad().clone();
  Tensor(x.grad()).zero_();
  Tensor(mlp.down_proj.weight.grad()).zero_();
  const Tensor kept = silu(linear(x, mlp.gate_proj.weight)) * linear(x, mlp.up_proj.weight);
  sum(sin(linear(kept, mlp.down_proj.weight))).backward();
  CHECK(relative_distance(got, x.grad()) < 1e-5);
  CHECK(relative_distance(of_weight, mlp.down_proj.weight.grad()) < 1e-5);
}

TEST_CASE("language models train without all logits, and evaluate with them") {
  const int64_t tokens = 4096, words = 16384;
  const auto loss_of = [&](const Model& model, const Tensor& ids) {
    return cross_entropy(flatten(model(ids), 0, 1), flatten(ids));
  };
  const Model llama = models::decoder("llama", {.vocab_size = words,
                                                .hidden_size = 16,
                                                .intermediate_size = 16,
                                                .num_hidden_layers = 1,
                                                .num_attention_heads = 2,
                                                .max_position_embeddings = 64});
  const Tensor ids = zeros({tokens / 64, 64}, {.dtype = DType::i64});
  const int64_t all = tokens * words * 4;
  CHECK(peak_of([&] { loss_of(llama, ids).backward(); }) < all / 2);
  llama.eval();
  const NoGradGuard no_grad;
  CHECK(has_memory(llama(ids)));
}
