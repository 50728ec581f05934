// Gradients of several passes: a product that accumulates into a weight's gradient gives the same
// bits as a product whose result is added afterwards.
#include "core/autograd/deferred_gradients.h"
#include "core/autograd/functions.h"
#include "core/autograd/leaf_gradients.h"
#include "core/autograd/observer.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/tensor/memory/allocator.h"
#include "core/tensor/random/random.h"
#include "tests/draws.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>

#include <random>

using namespace booster;

namespace {

struct LeavesSeen : OpObserver {
  void op_called(Op, const OpPolicy*, std::span<const Tensor>, std::span<Tensor* const>) override {}
  void was_cast(const CastEvent&) override {}
  void was_quantized(const QuantizeEvent&) override {}
  void op_returned(const char*, std::span<const Tensor>, const Tensor&) override {}
  void backward_returned(const char*, std::span<const Tensor>, std::span<const Tensor>,
                         int64_t) override {}
  void leaf_receives(const Tensor&, const Tensor&) override { ++count; }
  void module_begins(const Module&) override {}
  void module_ends(const Module&) override {}
  int count = 0;
};

// The random events of one pass, the same for both models.
struct Pass {
  std::vector<int> layers;  // the weight that each layer uses
  bool lower = false, in_f16 = false, recomputed = false, deferred = false, observed = false;
  bool only_asked_for = false, of_gradient = false, cleared = false;
  Tensor x, g;
};

// Square layers over a few leaves. With hooks, only the gradient that reaches a leaf can be
// accumulated.
struct Layers {
  Layers(const std::vector<Tensor>& values, bool hooked, bool buffered) {
    for (const Tensor& value : values) {
      const Tensor weight = value.to(gpu).requires_grad_();
      weights.push_back(weight);
      biases.push_back(ones({value.size(0)}, {DType::f32, gpu}).requires_grad_());
      on_grad_ready(weight, [this](const Tensor&) { ++ready; });
      if (hooked)
        register_grad_hook(weight, [this](const Tensor&) { return ++hooks_run, Tensor(); });
      if (buffered) set_grad_buffer(weight, empty(value.shape(), {DType::f32, gpu}));
    }
  }
  Layers(const Layers&) = delete;

  Tensor forward(const Pass& pass, const Tensor& x) const {
    OpPolicy policy;
    policy.set(Op::linear, OpClass::lower_precision);
    policy.device = DeviceType::cuda;
    policy.lower = pass.in_f16 ? DType::f16 : DType::bf16;
    const PolicyScope scope(pass.lower ? &policy : nullptr);
    Tensor y = x;
    for (const int i : pass.layers) {
      const auto run = [this, i](const std::vector<Tensor>& inputs) {
        return tanh(
            linear(inputs[0], weights[static_cast<size_t>(i)], biases[static_cast<size_t>(i)]));
      };
      y = pass.recomputed ? checkpoint(run, {y}) : run({y});
    }
    return cast(y, DType::f32);
  }

  void run(const Pass& pass) {
    if (pass.cleared) clear_grad(weights[0]);
    Tensor x = pass.x.detach();
    if (pass.of_gradient && weights[0].grad().defined()) x = weights[0].grad();
    const Tensor needed = pass.x.detach().requires_grad_();
    const Tensor y = forward(pass, x) + needed;
    if (pass.only_asked_for) {
      gradients(y, {weights[static_cast<size_t>(pass.layers[0])]}, {.grad = pass.g});
      return;
    }
    LeavesSeen observer;
    if (pass.observed) op_observer = &observer;
    DeferredGradients later;
    if (pass.deferred) {
      const DeferredGradients::Scope scope(later, needed);
      backward(y, {.grad = pass.g});
    } else {
      backward(y, {.grad = pass.g});
    }
    later.run();
    op_observer = nullptr;
    seen += observer.count;
  }

  std::vector<Tensor> weights, biases;
  int ready = 0, seen = 0, hooks_run = 0;
};

Pass drawn_pass(std::mt19937& random, int leaves, int64_t n) {
  const auto chance = [&](unsigned of) { return random() % of == 0; };
  Pass pass;
  const auto draw = [&] { return static_cast<int>(random() % static_cast<unsigned>(leaves)); };
  for (int i = 0, count = 1 + draw(); i < count; ++i) pass.layers.push_back(draw());
  pass.lower = chance(2), pass.in_f16 = chance(3);
  pass.recomputed = chance(4), pass.deferred = chance(4);
  pass.observed = chance(6), pass.of_gradient = chance(6), pass.cleared = chance(6);
  pass.only_asked_for = !pass.recomputed && chance(6);
  if (pass.of_gradient) pass.layers = {0};
  pass.x = uniform({n, n}, -1, 1).to(gpu);
  pass.g = uniform({n, n}, -1, 1).to(gpu);
  return pass;
}

using Numbers = std::vector<float>;
Numbers gradient_of(const Tensor& leaf) {
  return leaf.grad().defined() ? leaf.grad().to_vector<float>() : Numbers();
}

}  // namespace

TEST_CASE("GPU: gradients that are added to have the bits of sums of gradients" * on_gpu()) {
  constexpr int leaves = 3;
  for (const unsigned round : testing::draws(40)) {
    std::mt19937 random(round);
    INFO("round ", round);
    const int64_t n = 1 + static_cast<int64_t>(random() % 9);
    const bool buffered = random() % 3 == 0;
    std::vector<Tensor> values;
    for (int i = 0; i < leaves; ++i) values.push_back(uniform({n, n}, -1, 1));
    Layers layers(values, false, buffered), want(values, true, buffered);
    for (int i = 0; i < 5; ++i) {
      const Pass pass = drawn_pass(random, leaves, n);
      const Tensor held = layers.weights[1].grad();
      layers.run(pass);
      want.run(pass);
      if (held.defined()) CHECK(held.to_vector<float>() == gradient_of(layers.weights[1]));
      for (size_t leaf = 0; leaf < leaves; ++leaf) {
        const Tensor grad = layers.weights[leaf].grad(), wanted = want.weights[leaf].grad();
        CHECK(gradient_of(layers.weights[leaf]) == gradient_of(want.weights[leaf]));
        if (grad.defined()) CHECK(grad.version() == wanted.version());
        CHECK(gradient_of(layers.biases[leaf]) == gradient_of(want.biases[leaf]));
      }
      CHECK(layers.ready == want.ready);
      CHECK(want.hooks_run >= want.ready);
      CHECK(layers.seen == want.seen);
    }
  }
}

TEST_CASE("GPU: a second pass needs no room for the gradient of a weight" * on_gpu()) {
  constexpr int64_t n = 256, bytes = n * n * 4;
  for (const bool lower : {false, true}) {
    CAPTURE(lower);
    Layers layers({uniform({n, n}, -1, 1)}, false, false);
    const auto peak_of_pass = [&] {
      const Tensor x = ones({1, n}, {DType::f32, gpu});
      Pass pass;
      pass.layers = {0}, pass.lower = lower, pass.x = pass.g = x;
      layers.run(pass);  // caches that persist between calls are filled now
      const int64_t before = allocator_stats().live_bytes;
      reset_peak_bytes();
      layers.run(pass);
      return allocator_stats().peak_bytes - before;
    };
    CHECK(peak_of_pass() < bytes);
  }
}

TEST_CASE("GPU: a hook on the cast of a weight sees each gradient" * on_gpu()) {
  const Tensor w = ones({2, 2}, {DType::f32, gpu}).requires_grad_();
  const Tensor x = ones({3, 2}, {DType::f32, gpu});
  OpPolicy policy;
  policy.set(Op::linear, OpClass::lower_precision);
  policy.device = DeviceType::cuda;
  for (int pass = 1; pass <= 2; ++pass) {
    const PolicyScope scope(&policy);
    register_grad_hook(cast(w, policy.lower), [](const Tensor& g) { return g * 2; });
    backward(sum(linear(x, w)));
    CHECK(w.grad().to_vector<float>() == Numbers(4, static_cast<float>(6 * pass)));
  }
}
