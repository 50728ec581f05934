// Work that a backward pass does while ranks communicate a layer's gradient. It gives the same
// bits, and happens between the start of the message and the wait for it.
#include "core/autograd/functions.h"
#include "core/autograd/leaf_gradients.h"
#include "core/autograd/node.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/tensor/random/random.h"
#include "tests/draws.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

using namespace booster;

namespace {

constexpr int64_t features = 4;
using Numbers = std::vector<float>;
using Log = std::vector<std::string>;

// Returns x; the backward pass would send its gradient to other ranks.
Tensor sent(const Tensor& x, Log* log = nullptr) {
  return record(x.detach(), "sent", {x}, exchange([log](const Tensor& g, Gradients& d) {
                  if (log) log->push_back("start");
                  d[0] = g;
                  GradientSchedule(d).work_meanwhile();
                  if (log) log->push_back("wait");
                }));
}

// Does the same without communication.
Tensor passed(const Tensor& x) {
  return record(x.detach(), "passed", {x}, [](const Tensor& g, Gradients& d) { d[0] = g; });
}

// Returns x * w and logs when the gradient of w is computed.
Tensor weighted(const Tensor& x, const Tensor& w, Log& log) {
  return record(untracked::contiguous(mul(x.detach(), w.detach())), "weighted", {x, w},
                [x = Saved(x), w = Saved(w), &log](const Tensor& g, Gradients& d) {
                  log.push_back("input");
                  if (d.wanted(0)) d[0] = mul(g, w);
                  if (d.wanted(1))
                    GradientSchedule(d).compute(1, [g, x = x.get(), &log] {
                      log.push_back("weight");
                      return mul(g, x);
                    });
                });
}

struct SentLayer {
  int weight;
  bool sends, recomputed, branches;
};

struct SentChain {
  std::vector<Tensor> weights;
  std::vector<SentLayer> layers;
  bool lower = false;  // then a cast stands between a layer and the message

  Tensor operator()(const Tensor& input, bool sends) const {
    OpPolicy policy;
    policy.set(Op::linear, OpClass::lower_precision);
    const PolicyScope scope(lower ? &policy : nullptr);
    Tensor y = input;
    for (const SentLayer& layer : layers) {
      const auto run = [this, layer, sends](const std::vector<Tensor>& inputs) {
        const Tensor& x = inputs[0];
        const Tensor read = !layer.sends ? x : sends ? sent(x) : passed(x);
        return tanh(linear(read, weights[static_cast<size_t>(layer.weight)]));
      };
      const Tensor next = layer.recomputed ? checkpoint(run, {y}) : run({y});
      y = layer.branches ? next + cast(y, next.dtype()) : next;
    }
    return cast(y, DType::f32);
  }
};

SentChain drawn(std::mt19937& random) {
  SentChain chain;
  chain.lower = random() % 2;
  for (int i = 0; i < 3; ++i)
    chain.weights.push_back(uniform({features, features}, -1, 1).requires_grad_(random() % 5 > 0));
  const auto maybe = [&] { return random() % 2 == 0; };
  for (int i = 0, layers = 1 + static_cast<int>(random() % 5); i < layers; ++i)
    chain.layers.push_back({static_cast<int>(random() % 3), maybe(), random() % 4 == 0, maybe()});
  return chain;
}

}  // namespace

TEST_CASE("gradients that are computed while ranks exchange are the same bits, ready once") {
  for (const unsigned round : testing::draws(300)) {
    std::mt19937 random(round);
    const SentChain chain = drawn(random);
    const Tensor x = uniform({3, features}, -1, 1).requires_grad_(),
                 g = uniform({3, features}, -1, 1);
    const auto gradients_of = [&](bool sends) {
      std::vector<Numbers> all;
      std::vector<int> ready(chain.weights.size()), hooks;
      for (size_t i = 0; i < chain.weights.size(); ++i)
        hooks.push_back(on_grad_ready(chain.weights[i], [&, i](const Tensor&) { ++ready[i]; }));
      backward(chain(x, sends), {.grad = g});
      for (size_t i = 0; i < chain.weights.size(); ++i) {
        const Tensor& weight = chain.weights[i];
        all.push_back(weight.grad().defined() ? weight.grad().to_vector<float>() : Numbers());
        CHECK(ready[i] == (weight.grad().defined() ? 1 : 0));
        clear_grad(weight);
        remove_grad_ready_hook(weight, hooks[i]);
      }
      all.push_back(x.grad().to_vector<float>());
      clear_grad(x);
      return all;
    };
    INFO("round ", round);
    CHECK(gradients_of(true) == gradients_of(false));
  }
}

TEST_CASE("a weight's gradient is computed between the start of a message and the wait for it") {
  const Tensor x = ones({features}).requires_grad_(), w = ones({features}).requires_grad_();
  Log log;
  const Tensor last = weighted(x, w, log);                   // no communication follows this one
  const Tensor direct = weighted(sent(last, &log), w, log);
  const Tensor wide = cast(sent(direct, &log), DType::f64);
  backward(sum(cast(weighted(wide, cast(w, DType::f64), log), DType::f32)));
  CHECK(log == Log{"input", "start", "weight", "wait",   // after a cast
                   "input", "start", "weight", "wait", "input", "weight"});
  CHECK(w.grad().to_vector<float>() == Numbers(features, 3));
}

TEST_CASE("gradients by request, and those of gradients, are complete when they return") {
  const Tensor x = ones({features}).requires_grad_(), w = ones({features}).requires_grad_();
  Log log;
  const auto both = gradients(sum(weighted(sent(x, &log), w, log)), {x, w});
  CHECK(both[0].to_vector<float>() == Numbers(features, 1));
  CHECK(both[1].to_vector<float>() == Numbers(features, 1));
  const auto only = gradients(sum(weighted(sent(x), w, log)), {w});
  CHECK(only[0].to_vector<float>() == Numbers(features, 1));
}
