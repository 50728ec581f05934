// Weight gradients that are computed after input gradients have the same bits.
#include "core/autograd/deferred_gradients.h"
#include "core/autograd/functions.h"
#include "core/autograd/leaf_gradients.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/tensor/random/random.h"
#include "tests/draws.h"

#include <doctest/doctest.h>

#include <map>
#include <random>

using namespace booster;

namespace {

constexpr int64_t n = 5;
using Numbers = std::vector<float>;

struct Layer {
  int weight, bias;  // indices of leaves; bias -1: none
  bool recomputed;
};

// A chain of layers over few leaves, so that some leaves are used several times.
struct Chain {
  std::vector<Tensor> weights, biases;
  std::vector<Layer> layers;
  bool lower = false;  // runs in bf16, from f32 leaves

  Tensor operator()(const Tensor& x) const {
    OpPolicy policy;
    policy.set(Op::linear, OpClass::lower_precision);
    const PolicyScope scope(lower ? &policy : nullptr);
    Tensor y = x;
    for (const Layer& layer : layers) {
      const auto run = [this, layer](const std::vector<Tensor>& inputs) {
        const Tensor bias = layer.bias < 0 ? Tensor() : biases[static_cast<size_t>(layer.bias)];
        return tanh(linear(inputs[0], weights[static_cast<size_t>(layer.weight)], bias));
      };
      y = layer.recomputed ? checkpoint(run, {y}) : run({y});
    }
    return y;
  }
};

// Returns a random chain; with `once` each leaf is used at most once.
Chain drawn(std::mt19937& random, bool once) {
  Chain chain;
  chain.lower = random() % 2;
  for (int i = 0; i < 3; ++i) {
    chain.weights.push_back(uniform({n, n}, -1, 1).requires_grad_(random() % 5 > 0));
    chain.biases.push_back(uniform({n}, -1, 1).requires_grad_());
  }
  for (int i = 0, layers = 1 + static_cast<int>(random() % (once ? 3 : 5)); i < layers; ++i) {
    const int weight = once ? i : static_cast<int>(random() % 3);
    const int bias = once ? i : static_cast<int>(random() % 4) - 1;
    chain.layers.push_back({weight, bias, random() % 4 == 0});
  }
  return chain;
}

std::vector<Numbers> taken_gradients(const Chain& chain) {
  std::vector<Numbers> all;
  for (const auto& leaves : {chain.weights, chain.biases})
    for (const Tensor& leaf : leaves) {
      all.push_back(leaf.grad().defined() ? leaf.grad().to_vector<float>() : Numbers());
      clear_grad(leaf);
    }
  return all;
}

}  // namespace

// If a leaf is used several times, its sums may have another order.
TEST_CASE("gradients that are put off are the bits of those that are not") {
  for (const unsigned round : testing::draws(300)) {
    std::mt19937 random(round);
    const bool once = random() % 2;
    const Chain chain = drawn(random, once);
    const Tensor x = uniform({4, n}, -1, 1).requires_grad_(), g = uniform({4, n}, -1, 1);
    const auto start = [&] { return chain(x); };
    Tensor y = start();
    const Tensor grad = y.dtype() == DType::f32 ? g : untracked::cast(g, y.dtype());
    backward(y, {.grad = grad});
    const Numbers dx = x.grad().to_vector<float>();
    const std::vector<Numbers> want = taken_gradients(chain);
    clear_grad(x);

    DeferredGradients later;
    y = start();
    {
      const DeferredGradients::Scope scope(later, x);
      backward(y, {.grad = grad});
    }
    INFO("round ", round);
    CHECK(x.grad().to_vector<float>() == dx);
    for (const Numbers& none : taken_gradients(chain)) CHECK(none.empty());
    y = {};  // the tape is gone
    later.run();
    CHECK(later.empty());
    const std::vector<Numbers> got = taken_gradients(chain);
    if (once) CHECK(got == want);
    for (size_t i = 0; i < want.size(); ++i) {
      REQUIRE(got[i].size() == want[i].size());
      for (size_t k = 0; k < want[i].size(); ++k)
        CHECK(got[i][k] == doctest::Approx(want[i][k]).epsilon(1e-5));
    }
  }
}

TEST_CASE("hooks of a leaf see the gradients that were put off") {
  const Tensor w = ones({n, n}).requires_grad_(), x = ones({2, n}).requires_grad_();
  int ready = 0;
  on_grad_ready(w, [&](const Tensor&) { ++ready; });
  register_grad_hook(w, [](const Tensor& g) { return g * 2; });
  DeferredGradients later;
  {
    const DeferredGradients::Scope scope(later, x);
    backward(sum(linear(x, w)));
  }
  CHECK(ready == 0);
  later.run();
  CHECK(ready == 1);
  CHECK(w.grad().to_vector<float>()[0] == 4);
}

TEST_CASE("a weight that is needed at once, or computed from it, is not put off") {
  const Tensor x = uniform({n, n}, -1, 1).requires_grad_(), w = ones({n, n}).requires_grad_();
  backward(sum(linear(w, tanh(x)) + linear(w, x)));
  const Numbers want = x.grad().to_vector<float>();
  clear_grad(x);
  DeferredGradients later;
  {
    const DeferredGradients::Scope scope(later, x);
    backward(sum(linear(w, tanh(x)) + linear(w, x)));
  }
  CHECK(x.grad().to_vector<float>() == want);
}

TEST_CASE("a gradient that the program asks for within such a pass is complete") {
  const Tensor w = uniform({n, n}, -1, 1).requires_grad_(), x = ones({2, n}).requires_grad_();
  const Tensor y = sum(linear(x, w));
  DeferredGradients later;
  const DeferredGradients::Scope scope(later, x);
  CHECK(gradients(y, {w})[0].to_vector<float>() == Numbers(n * n, 2));
  CHECK(later.empty());
}
