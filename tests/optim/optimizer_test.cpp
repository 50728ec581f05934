// Optimizers against PyTorch's and timm's values, and their guarantees beyond the formulas.
#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/policy_dtypes.h"
#include "core/autograd/tape.h"
#include "core/optim/algorithms/registry.h"
#include "core/optim/optimizers.h"
#include "core/tensor/host_reads.h"
#include "core/tensor/tensor.h"
#include "kernels/arguments/multi_tensor.h"
#include "kernels/device/memory.h"
#include "tests/capture_part.h"
#include "tests/optim/golden.h"
#include "tests/optim/leaf.h"

using namespace booster;
using namespace booster::test;

namespace {

ParameterGroups groups_of(const Parameters& parameters, const OptimizerOptions& head_options) {
  if (head_options.empty()) return parameters;
  ParameterGroup body, head = {{}, head_options};
  for (const auto& parameter : parameters)
    (parameter.name == "head.weight" ? head : body).parameters.push_back(parameter);
  return {body, head};
}

Parameters train(const Json& file, const Json& one, DType dtype) {
  const Parameters parameters = parameters_of(file["values"], file["shapes"], dtype);
  auto optimizer =
      make_optimizer(one["rule"], groups_of(parameters, options_in(one["head_options"])),
                     options_in(one["options"]));
  for (const Json& grads : file["grads"]) {
    set_grads(parameters, grads, file["shapes"]);
    optimizer.step();
  }
  return parameters;
}

}  // namespace

TEST_CASE("optimizers agree with PyTorch and timm in f64 and f32") {
  const Json file = golden("optimizers");
  for (const Json& one : file["cases"]) {
    CAPTURE(one["case"].get<std::string>());
    for (const auto& [name, tensor] : train(file, one, DType::f64)) {
      CAPTURE_PART(name);
      check_close(tensor.to_vector<double>(), one["f64"][name], 1e-12, 1e-13);
    }
    for (const auto& [name, tensor] : train(file, one, DType::f32)) {
      CAPTURE_PART(name);
      check_close(tensor.to_vector<double>(), one["f32"][name], 2e-6, 1e-6);
    }
  }
}

TEST_CASE("the README's loop lowers a loss") {
  Tensor w = leaf({3, -2});
  auto optimizer = SGD({w}, {.lr = 0.1, .momentum = 0.5});
  double first = 0, last = 0;
  for (int step = 0; step < 20; ++step) {
    optimizer.zero_grad();
    Tensor loss = sum(w * w);
    backward(loss);
    optimizer.step();
    (step == 0 ? first : last) = loss.item();
  }
  CHECK(last < first * 0.01);
}

TEST_CASE("a parameter without gradient keeps value, moments and its own count") {
  Tensor a = leaf({1}), b = leaf({1});
  auto optimizer = Adam(Parameters{{"a", a}, {"b", b}}, {.lr = 0.1});
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    set_grad(a, {1});
    if (step == 1) set_grad(b, {1});
    optimizer.step();
  }
  const auto state = optimizer.state_dict();
  CHECK(state.steps.at("a") == 3);
  CHECK(state.steps.at("b") == 1);
  CHECK(values_of(b)[0] == doctest::Approx(0.9));  // Adam's first step is lr, whatever the gradient
}

TEST_CASE("a step skipped in the very first call leaves no trace, with momentum too") {
  const float found = 1;
  Tensor skipped = leaf({1, 2}), plain = leaf({1, 2});
  auto a = SGD({skipped}, {.lr = 0.1, .momentum = 0.9, .dampening = 0.5});
  auto b = SGD({plain}, {.lr = 0.1, .momentum = 0.9, .dampening = 0.5});
  set_grad(skipped, {INFINITY, 1});
  a.step({&found, nullptr, nullptr});
  CHECK(values_of(skipped) == std::vector<float>{1, 2});
  CHECK(a.state_dict().tensors.empty());
  CHECK(a.state_dict().steps.at("0") == 0);
  for (int step = 0; step < 3; ++step) {
    set_grad(skipped, {0.5f, 1});
    set_grad(plain, {0.5f, 1});
    const float none = 0;
    a.step({&none, nullptr, nullptr});
    b.step();
  }
  CHECK(values_of(skipped) == values_of(plain));
}

TEST_CASE(
    "skipped steps count for nobody, read nothing back, and leave a parameter its own count") {
  for (const char* name : {"sgd", "adamw", "rmsprop", "lamb"}) {
    CAPTURE(name);
    Tensor a = leaf({1, 2}), b = leaf({3}), c = leaf({1, 2}), d = leaf({3});
    auto scaled = make_optimizer(name, Parameters{{"a", a}, {"b", b}}, {});
    auto plain = make_optimizer(name, Parameters{{"a", c}, {"b", d}}, {});
    const int64_t before = host_reads();
    for (int step = 0; step < 6; ++step) {
      const float found = step % 3 == 1 ? NAN : 0;
      set_grad(a, {0.5f, 1});
      if (step > 1) set_grad(b, {2});  // takes no part in the first two
      scaled.step({&found, nullptr, nullptr});
      if (found != 0) continue;
      set_grad(c, {0.5f, 1});
      if (step > 1) set_grad(d, {2});
      plain.step();
    }
    CHECK(host_reads() == before);
    CHECK(values_of(a) == values_of(c));
    CHECK(values_of(b) == values_of(d));
    CHECK(scaled.state_dict().steps == plain.state_dict().steps);
    CHECK(scaled.state_dict().steps.at("b") == 3);
    CHECK(scaled.state_dict().groups[0].step == plain.state_dict().groups[0].step);
  }
}

TEST_CASE("a step skipped while autocast's copy of a weight is old does not make it current") {
  Tensor weight = leaf({1, 2});
  auto optimizer = SGD({weight}, {.lr = 0.1});
  OpPolicy policy;
  policy.lower = DType::bf16;
  const auto seen = [&] {
    const PolicyScope scope(&policy);
    return cast(weight, DType::bf16).to_vector<float>();
  };
  CHECK(seen() == std::vector<float>{1, 2});
  {
    const NoGradGuard guard;
    weight.fill_(4);
  }
  set_grad(weight, {1, 1});
  const float found = 1;
  optimizer.step({&found, nullptr, nullptr});
  CHECK(seen() == std::vector<float>{4, 4});
}

TEST_CASE(
    "inverse scale and clip factor are applied to the gradients' values, not to their memory") {
  const float inverse = 0.25f;
  const double clip = 0.5;
  Tensor x = leaf({1}), y = leaf({1});
  set_grad(x, {8});
  set_grad(y, {1});
  auto a = SGD({x}, {.lr = 0.1}), b = SGD({y}, {.lr = 0.1});
  a.step({nullptr, &inverse, &clip});
  b.step();
  CHECK(values_of(x) == values_of(y));
  CHECK(values_of(x.grad())[0] == 8);
}

TEST_CASE("a 16-bit parameter follows its f32 master, rewritten in the same step") {
  for (DType dtype : {DType::f16, DType::bf16}) {
    Tensor w = leaf({1, 2}, dtype);
    const Tensor master = untracked::cast(w.detach(), DType::f32).clone();
    auto optimizer = AdamW(Parameters{{"w", w}}, {.lr = 1e-4, .weight_decay = 0});
    optimizer.set_master("w", master);
    const auto version = w.version();
    for (int step = 0; step < 40; ++step) {
      set_grad(w, {1, -1});
      optimizer.step();
    }
    CHECK(w.version() > version);
    // Each step moves by lr, too little for a 16-bit value near 1 to show, but the steps add up.
    CHECK(values_of(master)[0] == doctest::Approx(1 - 40e-4).epsilon(1e-5));
    CHECK(values_of(w) == values_of(untracked::cast(master, dtype)));
    CHECK(optimizer.master("w").same_body(master));
  }
}

TEST_CASE("without a master small updates of a 16-bit parameter are lost, its moments are f32") {
  Tensor w = leaf({1}, DType::bf16);
  auto optimizer = AdamW(Parameters{{"w", w}}, {.lr = 1e-4, .weight_decay = 0});
  for (int step = 0; step < 40; ++step) {
    set_grad(w, {1});
    optimizer.step();
  }
  CHECK(values_of(w)[0] == 1);
  CHECK(optimizer.state_dict().tensors.at("w.exp_avg").dtype() == DType::f32);
}

TEST_CASE("a step renews the copy that autocast keeps of a weight") {
  Tensor w = leaf({1, 2});
  OpPolicy policy;
  policy.lower = DType::bf16;
  {
    PolicyScope scope(&policy);
    cast(w, DType::bf16);
  }
  REQUIRE(cast_copy(w, DType::bf16).defined());
  auto optimizer = SGD({w}, {.lr = 0.5});
  set_grad(w, {1, 1});
  optimizer.step();
  CHECK(values_of(cast_copy(w, DType::bf16)) == std::vector<float>{0.5f, 1.5f});
  PolicyScope scope(&policy);
  CHECK(values_of(cast(w, DType::bf16)) == std::vector<float>{0.5f, 1.5f});
}

TEST_CASE("clipping before a step gives what clipped gradients give, and returns the norm") {
  Tensor a = leaf({0, 0}), b = leaf({0, 0});
  set_grad(a, {3, 4});
  set_grad(b, {0.6f, 0.8f});
  auto clipped = SGD({a}, {.lr = 1}), plain = SGD({b}, {.lr = 1});
  CHECK(clipped.clip_grad_by_norm(1) == doctest::Approx(5));
  // A second clipping sees the result of the first.
  CHECK(clipped.clip_grad_by_norm(10) == doctest::Approx(1));
  clipped.step();
  plain.step();
  check_close(a.to_vector<double>(), b.to_vector<double>(), 1e-5, 0);
  // The factor applied to one step only.
  set_grad(a, {3, 4});
  clipped.step();
  CHECK(values_of(a)[0] == doctest::Approx(-3.6));
  set_grad(a, {3, -4});
  clipped.clip_grad_by_value(2);
  CHECK(values_of(a.grad()) == std::vector<float>{2, -2});
}

TEST_CASE("a copy of the handle is the same optimizer; gradients are forgotten by zero_grad") {
  Tensor w = leaf({1});
  auto a = SGD({w}, {.lr = 0.1});
  Optimizer b = a;
  CHECK(a == b);
  b.set_lr(0.5);
  CHECK(a.lr() == 0.5);
  set_grad(w, {1});
  CHECK(b.parameters_with_grad().size() == 1);
  a.zero_grad();
  CHECK_FALSE(w.grad().defined());
  CHECK(b.parameters_with_grad().empty());
  a.step();
  CHECK(values_of(w)[0] == 1);
}

TEST_CASE("a gradient with strides of its own is used in the right order") {
  Tensor w = zeros({2, 3}).requires_grad_();
  const Tensor g = from_vector<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  w.set_grad(untracked::transpose(g, 0, 1));
  SGD({w}, {.lr = 1}).step();
  CHECK(values_of(w) == std::vector<float>{-1, -3, -5, -2, -4, -6});
}

TEST_CASE("after an exchange masters reach parameters, and gathered parameters keep masters") {
  const auto made = [] {
    Tensor w = full({2}, 1, {DType::f16}).requires_grad_();
    Optimizer optimizer = SGD({w}, {.lr = 1});
    optimizer.set_master("0", full({2}, 1.0001));
    return std::pair(w, optimizer);
  };
  auto [w, averaged] = made();
  averaged.master("0").fill_(2.5);  // like an average over ranks
  averaged.settle_masters();
  CHECK(w.to_vector<float>() == std::vector<float>{2.5, 2.5});
  auto [v, gathered] = made();
  v.detach().copy_(full({2}, 1, {DType::f16}));  // the master, rounded, from another rank
  gathered.settle_masters();
  v.set_grad(zeros({2}, {DType::f16}));
  gathered.step();
  CHECK(gathered.master("0").to_vector<float>()[0] == 1.0001f);
}

TEST_CASE("a step with a closure computes the loss on the tape, steps once and returns it") {
  const Tensor w = full({2}, 3).requires_grad_();
  Optimizer optimizer = SGD({w}, {.lr = 0.1});
  int calls = 0;
  const NoGradGuard off;  // the closure still records, as in PyTorch
  for (const double want : {18.0, 18 * 0.64}) {
    const Tensor loss = optimizer.step([&] {
      ++calls;
      optimizer.zero_grad();
      const Tensor loss = sum(square(w));
      backward(loss);
      return loss;
    });
    CHECK(loss.item() == doctest::Approx(want));
  }
  CHECK(calls == 2);
  CHECK(w.to_vector<float>()[0] == doctest::Approx(3 * 0.64));
}
