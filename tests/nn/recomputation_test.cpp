// checkpoint() and set_recompute(): what they keep, and what happens once although forward runs
// twice.
#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/layers.h"
#include "core/tensor/memory/allocator.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

#include <map>
#include <string>

using namespace booster;

namespace {

int64_t live() { return allocator_stats().live_bytes; }

Tensor twice_the_sine(const std::vector<Tensor>& in) { return sin(in[0]) * 2; }

}  // namespace

TEST_CASE("a chain of checkpoints gives its memory back as backward goes") {
  constexpr int blocks = 12;
  constexpr int64_t size = 1 << 16, bytes = size * 4;
  const Tensor x = ones({size}).requires_grad_();
  const int64_t before = live();
  std::vector<int64_t> live_at;  // when the gradient of each block's result arrives
  Tensor y = x;
  for (int i = 0; i < blocks; ++i) {
    y = checkpoint(twice_the_sine, {y});
    register_grad_hook(y, [&](const Tensor&) {
      live_at.push_back(live() - before);
      return Tensor();
    });
  }
  const Tensor loss = sum(y);
  y = Tensor();
  backward(loss);
  REQUIRE(live_at.size() == blocks);
  // The blocks' inputs, a gradient, and a few tensors of the running block.
  for (const int64_t at : live_at) CHECK(at <= (blocks + 4) * bytes);
  CHECK(live_at.back() < live_at.front() - (blocks / 2) * bytes);
}

TEST_CASE("leaves that hooks wait for are told once, by an inner pass too") {
  const Tensor w = ones({3}).requires_grad_(), x = ones({3}).requires_grad_();
  int told = 0;
  on_grad_ready(w, [&](const Tensor& leaf) {
    ++told;
    CHECK(leaf.grad().to_vector<float>() == std::vector<float>(3, 2));
  });
  const auto times_w = [&](const std::vector<Tensor>& in) { return in[0] * w; };
  backward(sum(checkpoint(times_w, {x}) + checkpoint(times_w, {x})));
  CHECK(told == 1);
}

TEST_CASE("a hook may remove itself, and add others, while hooks run") {
  const Tensor x = ones({2}).requires_grad_();
  std::vector<int> called;
  int first = 0;
  first = on_grad_ready(x, [&](const Tensor& leaf) {
    called.push_back(1);
    remove_grad_ready_hook(leaf, first);
    on_grad_ready(leaf, [&](const Tensor&) { called.push_back(3); });
  });
  on_grad_ready(x, [&](const Tensor&) { called.push_back(2); });
  backward(sum(x * 2));
  CHECK(called == std::vector{1, 2});
  backward(sum(x * 2));
  CHECK(called == std::vector{1, 2, 2, 3});

  const Tensor y = x * 2;
  int grads = 0;
  register_grad_hook(y, [&](const Tensor& g) {
    ++grads;
    for (int i = 0; i < 20; ++i)
      register_grad_hook(y, [&](const Tensor&) { return ++grads, Tensor(); });
    return g;
  });
  backward(sum(y));
  CHECK(grads == 1);
}

TEST_CASE("a module that runs again in backward is kept until then") {
  const Tensor x = ones({2, 3});
  Tensor y, weight;
  {
    const Model model = Linear(3, 4);
    model->set_recompute(true);
    weight = model.parameters()[0].tensor;
    y = sum(model(x));
  }
  backward(y);
  CHECK(weight.grad().to_vector<float>() == std::vector<float>(12, 2));
}

TEST_CASE("one that nobody keeps must live as long") {
  const Tensor x = ones({2, 3});
  Tensor y;
  {
    Linear local(3, 4);
    local.set_recompute(true);
    backward(sum(local(x)));
    CHECK(local.parameters()[0].tensor.grad().defined());
    y = sum(local(x));
  }
  CHECK(error_of([&] { backward(y); }).find("Linear: backward must run a module") == 0);
}

TEST_CASE("batch normalisation counts a batch once, though it runs twice") {
  for (const std::optional<double> momentum : {std::optional<double>(0.1), {}}) {
    CAPTURE(momentum.has_value());
    const Tensor x = uniform({4, 3, 2, 2}, -1, 1);
    const auto trained = [&](bool recompute) {
      auto norm = std::make_shared<BatchNorm2d>(3, BatchNorm2dOptions{.momentum = momentum});
      norm->set_recompute(recompute);
      const Model model = norm;
      for (int i = 0; i < 2; ++i) backward(sum(model(x * (i + 1)) * x));
      return model;
    };
    const Model once = trained(false), twice = trained(true);
    const auto buffers_of = [](const Model& model) {
      std::map<std::string, std::vector<double>> values;
      for (const auto& [name, tensor] : model.buffers())
        values[name] = untracked::cast(tensor, DType::f64).to_vector<double>();
      return values;
    };
    CHECK(buffers_of(once).size() == 3);
    CHECK(buffers_of(once) == buffers_of(twice));
    for (size_t i = 0; i < 2; ++i)
      CHECK(once.parameters()[i].tensor.grad().to_vector<float>() ==
            twice.parameters()[i].tensor.grad().to_vector<float>());
  }
}
