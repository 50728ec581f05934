// An optimizer that owns a range of a parameter: what it reads, keeps, saves and refuses, and the
// values that it leaves on the device.
#include "core/autograd/op_policy.h"
#include "core/optim/optimizers.h"
#include "core/tensor/host_reads.h"
#include "core/tensor/tensor.h"
#include "platform/error.h"
#include "tests/optim/leaf.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;

namespace {

using Floats = std::vector<float>;

SGD sgd_over(const Tensor& w, double momentum = 0) {
  return SGD(Parameters{{"w", w}}, {.lr = 1, .momentum = momentum});
}

}  // namespace

TEST_CASE("a step reads and writes what is owned alone; the rest may be anything") {
  Tensor w = leaf({1, 2, 3, 4});
  auto optimizer = sgd_over(w, 0.5);
  optimizer.own("w", {1, 3});
  set_grad(w, {NAN, 1, 2, INFINITY});
  CHECK(values_of(optimizer.gradients().at(0)) == Floats{1, 2});
  CHECK(optimizer.clip_grad_by_norm(100) == doctest::Approx(std::sqrt(5)));
  optimizer.step();
  CHECK(values_of(w) == Floats{1, 1, 1, 4});
  CHECK(optimizer.state_dict().tensors.at("w.momentum_buffer").shape() == Shape{2});
}

TEST_CASE("clipping by value clamps what is owned alone") {
  Tensor w = leaf({0, 0, 0});
  auto optimizer = sgd_over(w);
  optimizer.own("w", {0, 1});
  set_grad(w, {5, 5, 5});
  optimizer.clip_grad_by_value(2);
  CHECK(values_of(w.grad()) == Floats{2, 5, 5});
}

TEST_CASE("of nothing that is owned there is no gradient, but the step is counted") {
  Tensor w = leaf({1, 2});
  auto optimizer = AdamW(Parameters{{"w", w}}, {});
  optimizer.own("w", {2, 2});
  set_grad(w, {1, 1});
  CHECK(optimizer.gradients().empty());
  CHECK(optimizer.clip_grad_by_norm(1) == 0);
  optimizer.step();
  CHECK(values_of(w) == Floats{1, 2});
  const OptimizerState state = optimizer.state_dict();
  CHECK(state.steps.at("w") == 1);
  CHECK(state.tensors.at("w.exp_avg").numel() == 0);
  CHECK(state.parts.at("w").shape == Shape{2});
  CHECK(state.parts.at("w").range == ElementRange{2, 2});
}

TEST_CASE("a range that does not fit is refused by name") {
  Tensor w = leaf({1, 2, 3, 4});
  auto optimizer = sgd_over(w, 0.5);
  CHECK_THROWS_WITH_AS(optimizer.own("v", {0, 1}), doctest::Contains("no such parameter; got v"),
                       Error);
  for (const ElementRange range : {ElementRange{-1, 2}, {2, 5}, {3, 2}, {5, 5}})
    CHECK_THROWS_WITH_AS(optimizer.own("w", range),
                         doctest::Contains("outside of parameter w; got ["), Error);
  optimizer.own("w", {0, 1});
  optimizer.own("w", {1, 4});  // no state exists yet
  set_grad(w, {1, 1, 1, 1});
  optimizer.step();
  CHECK_THROWS_WITH_AS(optimizer.own("w", {0, 2}),
                       "own: no values are kept for that range of parameter w; got [0, 2), want "
                       "within [1, 4)",
                       Error);
  optimizer.own("w", {2, 3});
  optimizer.step();
  CHECK(values_of(w) == Floats{1, 1, 3 - 1 - 1.5f, 3});
}

TEST_CASE("a group that is added is owned whole") {
  Tensor a = leaf({1, 1}), b = leaf({1, 1});
  auto optimizer = SGD(Parameters{{"a", a}}, {.lr = 1});
  optimizer.own("a", {0, 1});
  optimizer.add_group({{{"b", b}}});
  set_grad(a, {1, 1});
  set_grad(b, {1, 1});
  optimizer.step();
  CHECK(values_of(a) == Floats{0, 1});
  CHECK(values_of(b) == Floats{0, 0});
}

TEST_CASE("a master covers the range, given whole or as the range, and its memory is its own") {
  Tensor w = leaf({1, 2, 3, 4}, DType::bf16);
  auto optimizer = sgd_over(w);
  const Tensor whole = from_vector<float>({1, 2.001f, 3.001f, 4}, {4});
  optimizer.set_master("w", whole);
  optimizer.own("w", {1, 3});
  CHECK(values_of(optimizer.master("w")) == Floats{2.001f, 3.001f});
  CHECK_FALSE(optimizer.master("w").shares_storage(whole));
  optimizer.set_master("w", whole);
  CHECK_FALSE(optimizer.master("w").shares_storage(whole));
  CHECK(values_of(optimizer.master("w")) == Floats{2.001f, 3.001f});
  const Tensor range = from_vector<float>({5, 6}, {2});
  optimizer.set_master("w", range);
  CHECK(optimizer.master("w").same_body(range));
  CHECK_THROWS_WITH_AS(optimizer.set_master("w", zeros({3})),
                       doctest::Contains("got f32 (3,), want f32 (4,) or (2,)"), Error);
  set_grad(w, {1, 1, 1, 1});
  optimizer.step();
  CHECK(values_of(range) == Floats{4, 5});
  CHECK(values_of(w) == Floats{1, 4, 5, 4});
}

TEST_CASE("weights loaded into the model become the range's master") {
  Tensor w = leaf({1, 2, 3, 4}, DType::bf16);
  auto optimizer = sgd_over(w);
  optimizer.own("w", {1, 3});
  optimizer.make_masters();
  w.detach().copy_(from_vector<float>({10, 20, 30, 40}, {4}));
  set_grad(w, {1, 1, 1, 1});
  optimizer.step();
  CHECK(values_of(optimizer.master("w")) == Floats{19, 29});
  CHECK(values_of(w) == Floats{10, 19, 29, 40});
}

TEST_CASE("autocast's copy of a weight is renewed where the step wrote, and right elsewhere") {
  Tensor w = leaf({1, 2, 3});
  auto optimizer = sgd_over(w);
  optimizer.own("w", {1, 2});
  OpPolicy policy;
  policy.lower = DType::bf16;
  const PolicyScope scope(&policy);
  const auto seen = [&] { return values_of(cast(w, DType::bf16)); };
  CHECK(seen() == Floats{1, 2, 3});
  {
    const NoGradGuard guard;
    w.copy_(from_vector<float>({4, 5, 6}, {3}));
  }
  set_grad(w, {1, 1, 1});
  optimizer.step();
  CHECK(seen() == Floats{4, 4, 6});
}

TEST_CASE("a saved part fits a range within it, and no other") {
  const auto trained = [](ElementRange range) {
    Tensor w = leaf({0, 0, 0, 0, 0, 0});
    auto optimizer = sgd_over(w, 0.5);
    optimizer.own("w", range);
    set_grad(w, {1, 2, 3, 4, 5, 6});
    optimizer.step();
    return optimizer.state_dict();
  };
  const auto loaded = [](const OptimizerState& state, ElementRange range) {
    auto optimizer = sgd_over(leaf({0, 0, 0, 0, 0, 0}), 0.5);
    optimizer.own("w", range);
    optimizer.load_state_dict(state);
    return values_of(optimizer.state_dict().tensors.at("w.momentum_buffer"));
  };
  CHECK(loaded(trained({0, 6}), {2, 4}) == Floats{3, 4});
  CHECK(loaded(trained({1, 5}), {2, 4}) == Floats{3, 4});
  CHECK(loaded(trained({2, 4}), {2, 4}) == Floats{3, 4});
  CHECK(loaded(trained({2, 4}), {5, 5}).empty());
  CHECK_THROWS_WITH_AS(loaded(trained({2, 4}), {3, 5}),
                       "load_state_dict: the saved part of parameter w does not cover the owned "
                       "part; got [2, 4), want "
                       "[3, 5) or more",
                       Error);
  CHECK_THROWS_WITH_AS(loaded(trained({2, 4}), {0, 6}), doctest::Contains("want [0, 6)"), Error);
  OptimizerState bare = trained({2, 4});
  bare.parts.clear();  // exactly the owned range
  CHECK(loaded(bare, {2, 4}) == Floats{3, 4});
  CHECK_THROWS_WITH_AS(loaded(bare, {2, 5}), doctest::Contains("got f32 (2,), want f32 (3,)"),
                       Error);
  OptimizerState other = trained({2, 4});
  other.parts.at("w").shape = {2, 3};
  CHECK_THROWS_WITH_AS(loaded(other, {2, 4}), doctest::Contains("saved with another shape"), Error);
}

TEST_CASE("loading state forgets a clip, its norm and its gradients") {
  Tensor w = leaf({0, 0});
  auto optimizer = sgd_over(w);
  const OptimizerState state = optimizer.state_dict();
  set_grad(w, {3, 4});
  optimizer.clip_grad_by_norm(1);
  CHECK(optimizer.clipped_norm().defined());
  optimizer.load_state_dict(state);
  CHECK_FALSE(optimizer.clipped_norm().defined());
  optimizer.step();
  CHECK(values_of(w) == Floats{-3, -4});
}

TEST_CASE("a clip reads nothing back; its norm is that of its gradients whenever it is looked at") {
  Tensor w = leaf({0, 0});
  auto optimizer = sgd_over(w);
  set_grad(w, {3, 4});
  const int64_t before = host_reads();
  const DeviceNumber norm = optimizer.clip_grad_by_norm(1);
  optimizer.step();
  set_grad(w, {6, 8});
  const DeviceNumber next = optimizer.clip_grad_by_norm(1);
  optimizer.step();
  optimizer.set_lr(0.5);
  CHECK(host_reads() == before);
  CHECK(norm == 5.0);
  CHECK(next == 10.0);
}

TEST_CASE("a clip that is settled is in the gradients, which others may be added to") {
  Tensor w = leaf({0, 0});
  auto optimizer = sgd_over(w);
  set_grad(w, {3, 4});
  optimizer.clip_grad_by_norm(1);
  optimizer.settle_clip();
  CHECK(values_of(w.grad())[0] == doctest::Approx(0.6));
  CHECK_FALSE(optimizer.clipped_norm().defined());
  w.grad().add_(ones({2}));
  optimizer.step();
  CHECK(values_of(w)[0] == doctest::Approx(-1.6));
  CHECK(values_of(w)[1] == doctest::Approx(-1.8));
  optimizer.settle_clip();  // no clip is pending
  CHECK(values_of(w.grad())[0] == doctest::Approx(1.6));
}

TEST_CASE("a norm that ranks share is what clipping and LAMB go by") {
  Tensor w = leaf({0, 0});
  auto optimizer = sgd_over(w);
  optimizer.share_norms({.gradient_norm = [](double power) {
                           CHECK(power == 2);
                           return scalar(10, {.dtype = DType::f64});
                         },
                         .add_squares = {}});
  set_grad(w, {3, 4});
  CHECK(optimizer.clip_grad_by_norm(5) == 10.0);
  optimizer.step();
  CHECK(values_of(w)[0] == doctest::Approx(-1.5));

  const auto stepped = [](double norm) {
    Tensor x = leaf({1, 1});
    auto lamb = LAMB(Parameters{{"x", x}}, {.eps = 1});
    lamb.share_norms({.gradient_norm =
                          [=](double) { return scalar(norm, {.dtype = DType::f64}); },
                      .add_squares = {}});
    set_grad(x, {1, 1});
    lamb.step();
    return values_of(lamb.state_dict().tensors.at("x.exp_avg"))[0];
  };
  CHECK(stepped(4) == doctest::Approx(stepped(1) / 4));
}

TEST_CASE("LAMB clips by a group's own max_grad_norm where the others' is 0") {
  const auto moment = [](double max_norm) {
    Tensor a = leaf({1}), b = leaf({1});
    auto optimizer = LAMB({{{{"a", a}}}, {{{"b", b}}, {{"max_grad_norm", max_norm}}}},
                          {.max_grad_norm = 0});
    set_grad(a, {3});
    set_grad(b, {4});
    optimizer.step();
    const OptimizerState state = optimizer.state_dict();
    CHECK(values_of(state.tensors.at("a.exp_avg"))[0] == doctest::Approx(0.3));
    return values_of(state.tensors.at("b.exp_avg"))[0];
  };
  CHECK(moment(0) == doctest::Approx(0.4));
  CHECK(moment(1) == doctest::Approx(0.4 / 5));
}

TEST_CASE("an average covers what is owned, and the exchange is called whenever that was written") {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Tensor w = leaf({1, 2, 4}, dtype);
    auto optimizer = sgd_over(w);
    ParameterAverage average(optimizer, {.decay = 0.5});  // covers everything, then is narrowed
    optimizer.own("w", {1, 3});
    if (dtype == DType::bf16) optimizer.make_masters();
    set_grad(w, {9, 1, 2});
    optimizer.step();
    average.update();
    CHECK(values_of(average.state_dict().at("w")) == Floats{1.5, 3});
    CHECK(values_of(optimizer.state_dict().tensors.at("w.average")) == Floats{1.5, 3});
    std::vector<Floats> exchanged;
    {
      const AveragedWeights weights(average, [&] { exchanged.push_back(values_of(w)); });
    }
    CHECK(exchanged == std::vector<Floats>{{1, 1.5, 3}, {1, 1, 2}});
    optimizer.step();  // from the master, not from the written value
    CHECK(values_of(w) == Floats{1, 0, 0});
  }
}
