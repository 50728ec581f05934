// Adafactor and Muon, which compute with whole parameters, against PyTorch's values; masters,
// skipped steps, 16-bit parameters, saved state, refusals.
#include "core/autograd/functions.h"
#include "core/optim/algorithms/registry.h"
#include "core/optim/optimizers.h"
#include "core/tensor/host_reads.h"
#include "kernels/arguments/multi_tensor.h"
#include "tests/capture_part.h"
#include "tests/draws.h"
#include "tests/on_gpu.h"
#include "tests/optim/golden.h"

#include <random>

using namespace booster;
using namespace booster::test;

namespace {

Parameters trained_whole(const Json& file, const Json& one, DType dtype) {
  Json values;
  for (const auto& [name, numbers] : one["f64"].items()) values[name] = file["values"][name];
  const Parameters parameters = parameters_of(values, file["shapes"], dtype);
  auto optimizer = make_optimizer(one["rule"], parameters, options_in(one["options"]));
  for (const Json& grads : file["grads"]) {
    set_grads(parameters, grads, file["shapes"]);
    optimizer.step();
  }
  return parameters;
}

Tensor matrix_of(unsigned seed, const Shape& shape, DType dtype = DType::f32) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (double& value : values) value = normal(random);
  return untracked::cast(from_vector(values, shape), dtype);
}

Optimizer whole_rule(const std::string& rule, const Tensor& w, double lr = 0.05) {
  return make_optimizer(rule, Parameters{{"w", w}}, {{"lr", lr}, {"weight_decay", 0.1}});
}

std::vector<double> doubles(const Tensor& x) { return x.to_vector<double>(); }

}  // namespace

TEST_CASE("Adafactor and Muon agree with PyTorch in f64 and f32") {
  const Json file = golden("whole");
  for (const Json& one : file["cases"]) {
    CAPTURE(one["case"].get<std::string>());
    for (const auto& [name, tensor] : trained_whole(file, one, DType::f64)) {
      CAPTURE_PART(name);
      check_close(doubles(tensor), one["f64"][name], 1e-12, 1e-13);
    }
    // Muon's products are in bf16, which PyTorch rounds elsewhere: six steps of up to 2 lr.
    const double lr = one["options"].value("lr", 1e-3);
    const double tolerance = one["rule"] == "muon" ? 0.15 * lr : 2e-6;
    for (const auto& [name, tensor] : trained_whole(file, one, DType::f32)) {
      CAPTURE_PART(name);
      check_close(doubles(tensor), one["f32"][name], 3e-6, tolerance);
    }
  }
}

TEST_CASE("Muon's update is nearly orthogonal, whatever the matrix") {
  for (const unsigned seed : testing::draws(30)) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto side = [&] { return std::uniform_int_distribution<int64_t>(1, 20)(random); };
    const Shape shape = {side(), side()};
    CAPTURE(shape.to_string());
    Tensor w = zeros(shape).requires_grad_();
    auto optimizer = Muon({w}, {.lr = 1, .weight_decay = 0, .adjust_lr_fn = "original"});
    w.set_grad(matrix_of(seed, shape));
    optimizer.step();
    const double scale = std::sqrt(std::max(1.0, double(shape[0]) / double(shape[1])));
    const Tensor u = w.detach() / scale;
    const bool tall = shape[0] > shape[1];
    const Tensor gram = tall ? matmul(transpose(u, 0, 1), u) : matmul(u, transpose(u, 0, 1));
    // Squares of the singular values: the trace's share of each, and no large one.
    const double sides = double(std::min(shape[0], shape[1]));
    CHECK(sum(square(u)).item() / sides < 1.5);
    CHECK(sum(square(u)).item() / sides > 0.3);
    CHECK(amax(abs(gram)).item() < 1.6);
  }
}

TEST_CASE("a skipped step of a whole rule leaves no trace and reads nothing back") {
  for (const std::string rule : {"adafactor", "muon"}) {
    CAPTURE(rule);
    Tensor a = matrix_of(1, {3, 4}).requires_grad_(), b = untracked::clone(a).requires_grad_();
    auto skips = whole_rule(rule, a), plain = whole_rule(rule, b);
    const int64_t before = host_reads();
    for (unsigned step = 0; step < 6; ++step) {
      const float found = step % 3 == 0 ? NAN : 0, inverse_scale = 0.25;
      const Tensor grad = matrix_of(10 + step, {3, 4});
      a.set_grad(found == 0 ? grad * 4.0 : grad * INFINITY);
      skips.step({&found, &inverse_scale, nullptr});
      if (found != 0) continue;
      b.set_grad(grad);
      plain.step();
    }
    CHECK(host_reads() == before);
    CHECK(doubles(a) == doubles(b));
    const OptimizerState got = skips.state_dict(), want = plain.state_dict();
    CHECK(got.steps.at("w") == 4);
    REQUIRE(got.tensors.size() == want.tensors.size());
    for (const auto& [name, tensor] : want.tensors)
      CHECK(doubles(got.tensors.at(name)) == doubles(tensor));
  }
}

TEST_CASE("a clip by norm scales the gradients of a whole rule") {
  Tensor a = matrix_of(1, {3, 4}).requires_grad_(), b = untracked::clone(a).requires_grad_();
  auto clips = whole_rule("adafactor", a), plain = whole_rule("adafactor", b);
  for (unsigned step = 0; step < 3; ++step) {
    const Tensor grad = matrix_of(10 + step, {3, 4});
    const double norm_of_grad = norm(grad).item();
    a.set_grad(grad);
    clips.clip_grad_by_norm(0.5 * norm_of_grad);
    clips.step();
    b.set_grad(grad * 0.5);
    plain.step();
  }
  check_close(doubles(a), doubles(b), 1e-5, 1e-6);
}

TEST_CASE("whole rules update masters, and 16-bit parameters without") {
  for (const std::string rule : {"adafactor", "muon"}) {
    CAPTURE(rule);
    Tensor exact = matrix_of(1, {3, 4}).requires_grad_();
    Tensor with = untracked::cast(exact, DType::bf16).requires_grad_();
    Tensor without = untracked::clone(with).requires_grad_();
    exact.detach().copy_(untracked::cast(with, DType::f32));
    auto wide = whole_rule(rule, exact), narrow = whole_rule(rule, with);
    auto rounds = whole_rule(rule, without);
    narrow.make_masters();
    rounds.set_rounding("w", UpdateRounding::kahan);
    for (unsigned step = 0; step < 4; ++step) {
      const Tensor grad = untracked::cast(matrix_of(10 + step, {3, 4}), DType::bf16);
      exact.set_grad(untracked::cast(grad, DType::f32));
      with.set_grad(grad);
      without.set_grad(grad);
      wide.step();
      narrow.step();
      rounds.step();
    }
    CHECK(doubles(narrow.master("w")) == doubles(exact));
    CHECK(doubles(with) == doubles(untracked::cast(exact, DType::bf16)));
    check_close(doubles(without), doubles(exact), 0.02, 0.02);
  }
}

TEST_CASE("a resumed whole rule goes on with the same bits, and refuses other shapes") {
  for (const std::string rule : {"adafactor", "muon"}) {
    CAPTURE(rule);
    Tensor a = matrix_of(1, {3, 4}).requires_grad_();
    auto first = whole_rule(rule, a);
    a.set_grad(matrix_of(2, {3, 4}));
    first.step();
    Tensor b = untracked::clone(a).requires_grad_();
    auto second = whole_rule(rule, b, 0.7);
    OptimizerState state = first.state_dict();
    second.load_state_dict(state);
    for (const Tensor& w : {a, b}) w.set_grad(matrix_of(3, {3, 4}));
    first.step();
    second.step();
    CHECK(doubles(a) == doubles(b));
    for (auto& [name, tensor] : state.tensors) tensor = zeros({5, 4});
    CHECK_THROWS_WITH_AS(second.load_state_dict(state), doctest::Contains("does not match"), Error);
  }
}

TEST_CASE("Adafactor keeps a row and a column for a matrix, a vector for a vector") {
  Tensor w = zeros({3, 4}).requires_grad_(), b = zeros({4}).requires_grad_();
  auto optimizer = Adafactor(Parameters{{"w", w}, {"b", b}});
  for (const Tensor& x : {w, b}) x.set_grad(ones_like(x));
  optimizer.step();
  const auto tensors = optimizer.state_dict().tensors;
  CHECK(tensors.size() == 3);
  CHECK(tensors.at("w.row_var").shape() == Shape{3, 1});
  CHECK(tensors.at("w.col_var").shape() == Shape{1, 4});
  CHECK(tensors.at("b.variance").shape() == Shape{4});
}

TEST_CASE("Muon's groups with adamw train as AdamW's") {
  Tensor w = matrix_of(1, {3, 4}).requires_grad_(), b = matrix_of(2, {4}).requires_grad_();
  Tensor c = untracked::clone(b).requires_grad_();
  auto muon = Muon({{{{"w", w}}}, {{{"b", b}}, {{"adamw", 1}, {"lr", 0.1}}}}, {.lr = 0.02});
  auto adamw = AdamW({{{{"b", c}}}}, {.lr = 0.1, .betas = {0.9, 0.95}, .weight_decay = 0.1});
  for (unsigned step = 0; step < 3; ++step) {
    w.set_grad(matrix_of(10 + step, {3, 4}));
    for (const Tensor& x : {b, c}) x.set_grad(matrix_of(20 + step, {4}));
    muon.step();
    adamw.step();
  }
  CHECK(doubles(b) == doubles(c));
  CHECK(muon.state_dict().tensors.count("b.exp_avg_sq") == 1);
  CHECK(muon.state_dict().tensors.count("w.momentum_buffer") == 1);
}

TEST_CASE("whole rules say what does not fit") {
  Tensor w = zeros({3, 4}).requires_grad_(), b = zeros({4}).requires_grad_();
  CHECK_THROWS_WITH_AS(Muon(Parameters{{"w", w}, {"b", b}}),
                       doctest::Contains("muon: parameter b is no matrix; got shape (4,), want"),
                       Error);
  CHECK_THROWS_WITH_AS(Muon({w}, {.adjust_lr_fn = "orignal"}),
                       doctest::Contains("did you mean original?"), Error);
  CHECK_THROWS_AS(Adafactor({w}, {.d = 0.5}), Error);
  CHECK_THROWS_AS(Adafactor({w}, {.beta2_decay = 0.1}), Error);
  auto optimizer = Adafactor(Parameters{{"w", w}});
  CHECK_NOTHROW(optimizer.own("w", {0, 12}));
  CHECK_THROWS_WITH_AS(optimizer.own("w", {0, 6}),
                       doctest::Contains("adafactor: it computes with whole parameters, but ranks "
                                         "would share w; got [0, 6) of 12"),
                       Error);
  CHECK(optimizer.needs_whole_parameters());
  CHECK_FALSE(SGD({w}).needs_whole_parameters());
}

TEST_CASE("GPU: whole rules give the CPU's values" * on_gpu()) {
  for (const std::string rule : {"adafactor", "muon"}) {
    CAPTURE(rule);
    Tensor a = matrix_of(1, {8, 6}).requires_grad_();
    Tensor b = a.detach().to({DeviceType::cuda, 0}).requires_grad_();
    auto here = whole_rule(rule, a), there = whole_rule(rule, b);
    for (unsigned step = 0; step < 3; ++step) {
      a.set_grad(matrix_of(10 + step, {8, 6}));
      b.set_grad(a.grad().to(b.device()));
      here.step();
      there.step();
    }
    check_close(doubles(b), doubles(a), 1e-4, rule == "muon" ? 5e-3 : 1e-5);
  }
}
