// Mixed-precision pitfalls that Diagnose finds, by their numbers in docs/numerics.md.
#include "core/autograd/leaf_gradients.h"
#include "core/optim/clip.h"
#include "tests/booster/numerics/diagnosed.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

using namespace booster;
using namespace booster::numerics;
using namespace booster::test;
using doctest::Contains;

TEST_CASE("pitfall 11: gradients left from a skipped step are told by name") {
  Booster booster({.mixed_precision = "fp16"});
  Model model = Net();
  auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  Diagnose doctor(net);
  for (const double input : {infinity, 1.0}) {  // without zero_grad
    booster.backward(mean(cast(net(full({4, 6}, input)), DType::f32)), opt);
    opt.step();
  }
  REQUIRE(doctor.findings().size() >= 2);
  const auto found = doctor.findings();
  CHECK(found[1].pitfall == Pitfall::stale_inf_gradients);
  CHECK(found[1].step == 2);
  CHECK(found[1].remedy.find("zero_grad") != std::string::npos);
}

TEST_CASE("pitfall 9: many skipped steps in a row are a collapse") {
  const Outcome seen = diagnosed({.steps = 12, .input = infinity});
  REQUIRE(seen.of(Pitfall::scale_collapse));
  CHECK(seen.of(Pitfall::scale_collapse)->text.find("10 steps in a row were skipped") !=
        std::string::npos);
  CHECK(seen.exit_code == 3);
}

TEST_CASE("pitfall 14: clipping scaled gradients is told with the scale") {
  const Outcome wrong = diagnosed({.before_step = [](BoostedPair& pair) {
    for (const auto& [name, parameter] : pair.optimizer.unwrap().parameters_with_grad())
      clamp_gradients({parameter.grad()}, 1);
  }});
  REQUIRE(wrong.of(Pitfall::clipped_while_scaled));
  CHECK(wrong.of(Pitfall::clipped_while_scaled)->text.find("65536") != std::string::npos);
  const Outcome right =
      diagnosed({.before_step = [](BoostedPair& pair) { pair.optimizer.clip_grad_by_value(1); }});
  CHECK_FALSE(right.of(Pitfall::clipped_while_scaled));
  CHECK_FALSE(right.of(Pitfall::gradients_changed));
}

TEST_CASE("pitfall 29: gradients changed after the look for inf are told") {
  const Outcome seen = diagnosed({.before_step = [](BoostedPair& pair) {
    pair.optimizer.clip_grad_by_value(1);
    for (const auto& [name, parameter] : pair.optimizer.unwrap().parameters_with_grad())
      Tensor(parameter.grad()).mul_(2);
  }});
  REQUIRE(seen.of(Pitfall::gradients_changed));
  CHECK(seen.of(Pitfall::gradients_changed)->text.find("hidden.weight") != std::string::npos);
}

TEST_CASE("pitfall 18: parameters without gradients are told by name") {
  const Outcome seen = diagnosed({.strategy = "bf16", .before_step = [](BoostedPair& pair) {
                                    clear_grad(pair.optimizer.unwrap().parameters()[0].tensor);
                                  }});
  REQUIRE(seen.of(Pitfall::missing_gradients));
  CHECK(seen.of(Pitfall::missing_gradients)->text == "no gradient at hidden.weight");
  CHECK(seen.of(Pitfall::missing_gradients)->severity == Severity::warning);
}

TEST_CASE("pitfall 20: a learning rate that moves after a skipped step is told") {
  Booster booster({.mixed_precision = "fp16"});
  Model model = Net();
  auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  Diagnose doctor(net);
  for (const double input : {infinity, 1.0}) {
    opt.zero_grad();
    booster.backward(mean(cast(net(full({4, 6}, input)), DType::f32)), opt);
    opt.step();
    opt.unwrap().set_lr(0.05);
  }
  bool told = false;
  for (const Finding& finding : doctor.findings())
    told |= finding.pitfall == Pitfall::lr_moved_on_skip;
  CHECK(told);
}

TEST_CASE("pitfalls 38 and 39: gradients of parameters that nobody updates are told") {
  Booster booster;
  Model model = Net();
  auto [net, opt] =
      booster.boost(model, SGD(std::vector<Tensor>{model.parameters()[0].tensor}, {.lr = 0.1}));
  Diagnose doctor(net);
  Tensor late = ones({3});
  late.requires_grad_();
  booster.backward(mean(net(ones({2, 6})) * late), opt);
  opt.step();
  bool unowned = false, unknown = false;
  for (const Finding& finding : doctor.findings()) {
    unowned |= finding.pitfall == Pitfall::unowned_parameters && finding.object == "head.weight";
    unknown |=
        finding.pitfall == Pitfall::late_parameters && finding.object == "a leaf of shape (3,)";
  }
  CHECK(unowned);
  CHECK(unknown);
}

TEST_CASE("pitfalls 38 and 39: groups that joined while a Diagnose looks on are updated") {
  Booster booster;
  Model model = Net();
  const Parameters all = model.parameters();
  auto [net, opt] = booster.boost(model, SGD(Parameters{all[0]}, {.lr = 0.1}));
  Diagnose doctor(net);
  const Tensor late = ones({3}).requires_grad_();
  opt.unwrap().add_group({Parameters(all.begin() + 1, all.end())});
  opt.unwrap().add_group({{{"late", late}}});
  booster.backward(mean(net(ones({2, 6})) * late), opt);
  opt.step();
  for (const Finding& finding : doctor.findings()) {
    CHECK(finding.pitfall != Pitfall::unowned_parameters);
    CHECK(finding.pitfall != Pitfall::late_parameters);
  }
}

TEST_CASE("pitfall 33: an op on another thread without the policy is told") {
  const Outcome seen =
      diagnosed({.before_step = [](BoostedPair&) { std::thread([] { relu(ones({2})); }).join(); }});
  REQUIRE(seen.of(Pitfall::other_thread));
  CHECK(seen.of(Pitfall::other_thread)->object == "relu");
}

// For the thread sanitizer: other threads record while the training thread adds findings and reads.
TEST_CASE("ops on other threads are counted while a step is diagnosed, and lost by none") {
  Booster booster({.mixed_precision = "fp16"});
  Model model = Net();
  auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  Diagnose doctor(net);
  constexpr int threads = 3, calls = 200;
  std::vector<std::thread> others;
  for (int i = 0; i < threads; ++i)
    others.emplace_back([] {
      const Tensor x = ones({2});
      for (int call = 0; call < calls; ++call) relu(x);
    });
  for (int step = 0; step < 20; ++step) {
    opt.zero_grad();
    booster.backward(mean(cast(net(full({4, 6}, infinity)), DType::f32)), opt);
    opt.step();
    CHECK(doctor.exit_code() == 3);
  }
  for (std::thread& other : others) other.join();
  doctor.stop();
  int64_t counted = 0;
  for (const Finding& finding : doctor.findings())
    if (finding.pitfall == Pitfall::other_thread) counted += finding.count;
  CHECK(counted == threads * calls);
}

// For the thread sanitizer: only the observer's pointer orders what these threads read.
TEST_CASE("ops that run on other threads when a diagnosis begins meet a whole observer") {
  Booster booster({.mixed_precision = "fp16"});
  Model model = Net();
  auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  std::atomic<bool> ended = false;
  std::vector<std::thread> others;
  for (int i = 0; i < 2; ++i)
    others.emplace_back([&] {
      const Tensor x = ones({2});
      while (!ended.load(std::memory_order_relaxed)) relu(x);
    });
  Diagnose doctor(net);
  const auto seen = [&] {
    return std::ranges::any_of(doctor.findings(), [](const Finding& finding) {
      return finding.pitfall == Pitfall::other_thread && finding.object == "relu";
    });
  };
  for (int wait = 0; wait < 10'000 && !seen(); ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ended.store(true, std::memory_order_relaxed);
  for (std::thread& other : others) other.join();
  doctor.stop();
  CHECK(seen());
}

TEST_CASE("pitfall 32: updates that a 16-bit weight loses are told with their share") {
  Booster booster;
  Model model = Net();
  model->to(DType::bf16);
  auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 1e-6}));
  Diagnose doctor(net);
  booster.backward(mean(cast(net(ones({2, 6}, {.dtype = DType::bf16})), DType::f32)), opt);
  opt.step();
  doctor.stop();
  bool told = false;
  for (const Finding& finding : doctor.findings())
    told |= finding.pitfall == Pitfall::updates_lost && finding.object == "head.weight";
  CHECK(told);
}

TEST_CASE("pitfall 30: gradients that f16 flushes to 0 are told, with a scale to begin with") {
  const auto small = [](double scale) {
    Booster booster({.mixed_precision = FP16TorchMixedPrecision({.init_scale = scale})});
    Model model = Net();
    auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
    Diagnose doctor(net);
    booster.backward(mean(cast(net(ones({2, 6})), DType::f32)), opt);
    for (const auto& [name, parameter] : opt.unwrap().parameters_with_grad())
      Tensor(parameter.grad()).fill_(1e-9 * scale);
    opt.step();
    doctor.stop();
    CHECK(doctor.to_json()["suggested_loss_scale"] == 0x1p24);
    for (const Finding& finding : doctor.findings())
      if (finding.pitfall == Pitfall::vanishing_gradients) return true;
    return false;
  };
  CHECK(small(1));
  CHECK_FALSE(small(65536));
}

TEST_CASE("pitfall 2: a mask constant that f16 cannot hold is told at the cast") {
  const Outcome seen = diagnosed({.between = [](const Tensor& h) {
    const Tensor mask = cast(full({4, 8}, -1e9), DType::f16);
    return h * mask;
  }});
  REQUIRE(seen.of(Pitfall::constant_out_of_range));
  CHECK(seen.of(Pitfall::constant_out_of_range)->severity == Severity::error);
  CHECK(seen.of(Pitfall::constant_out_of_range)->text.find("cast") != std::string::npos);
  CHECK(seen.of(Pitfall::constant_out_of_range)->text.find("1e+09") != std::string::npos);
  CHECK(seen.of(Pitfall::constant_out_of_range)->remedy.find("-inf") != std::string::npos);
}

TEST_CASE("pitfall 3: rows of nothing but -inf are told at the softmax") {
  const Outcome seen = diagnosed({.between = [](const Tensor& h) {
    return softmax(h * 0.0 + full({4, 8}, -infinity), -1);
  }});
  REQUIRE(seen.of(Pitfall::fully_masked_softmax));
  CHECK(
      seen.of(Pitfall::fully_masked_softmax)->text.find("the first non-finite result is softmax") !=
      std::string::npos);
}

TEST_CASE("pitfall 5: a sum that overflows in f16 is told at the sum") {
  const Outcome seen = diagnosed(
      {.between = [](const Tensor& h) { return h + sum(h * 0.0 + 30000.0, {-1}, true); }});
  REQUIRE(seen.of(Pitfall::sum_overflow));
  CHECK(seen.of(Pitfall::sum_overflow)->text.find("the first non-finite result is sum") !=
        std::string::npos);
  CHECK(seen.exit_code == 3);
}

namespace {

// Returns the doctor's findings about fp8 tensors when a layer trains on these inputs, one per
// step.
std::vector<Finding> fp8_findings(const char* scaling, const std::vector<Tensor>& inputs) {
  manual_seed(3);
  Booster booster({.mixed_precision = FP8MixedPrecision({.scaling = scaling})});
  Model model = Sequential{Linear(16, 16)};
  auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.01}));
  Diagnose doctor(net);
  for (const Tensor& x : inputs) {
    opt.zero_grad();
    booster.backward(mean(cast(net(x), DType::f32)), opt);
    opt.step();
  }
  doctor.stop();
  CHECK(doctor.to_json()["quantized"].size() == 3);  // input, weight, gradient
  CHECK(doctor.table().find("0 (gradient)") != std::string::npos);
  std::vector<Finding> of_35;
  for (const Finding& finding : doctor.findings())
    if (finding.pitfall == Pitfall::fp8_amax) of_35.push_back(finding);
  return of_35;
}

Tensor of_size(double magnitude) { return uniform({8, 16}, -magnitude, magnitude); }

}  // namespace

TEST_CASE("pitfall 35: an fp8 scale made from a magnitude far from the present one is told") {
  const auto small = fp8_findings("delayed", {of_size(1e6), of_size(1), of_size(1)});
  REQUIRE(small.size() == 1);
  CHECK(small[0].object == "0 (input)");
  CHECK(small[0].step == 2);
  CHECK(small[0].count == 2);
  CHECK(small[0].severity == Severity::warning);
  CHECK(small[0].text.starts_with("100.0 % of its values are 0 in e4m3: its scale uses"));
  CHECK(small[0].text.find("1 pass ago") != std::string::npos);
  CHECK(small[0].remedy.find("current scaling") != std::string::npos);

  const auto unused = fp8_findings("delayed", {of_size(1000), of_size(1)});
  REQUIRE(unused.size() == 1);
  CHECK(unused[0].text.starts_with("most of e4m3's range is unused"));

  const auto large = fp8_findings("delayed", {of_size(1), of_size(100)});
  REQUIRE(large.size() == 1);
  CHECK(large[0].text.find("of its values are clipped in e4m3") != std::string::npos);
  CHECK(large[0].numbers["saturated_share"] > 0.9);
}

TEST_CASE("pitfall 35: fp8 numbers that are tiny beside the largest one are told") {
  Tensor x = of_size(1);
  x.view().as<float>()[5] = 1e7f;
  const auto tiny = fp8_findings("current", {x});
  REQUIRE(tiny.size() == 1);
  CHECK(tiny[0].object == "0 (input)");
  CHECK(tiny[0].text == "99.2 % of its values are 0 in e4m3: its largest magnitude is 1e+07");
}

TEST_CASE("pitfall 35: magnitudes that move as they do in training are not told") {
  for (const char* scaling : {"delayed", "current"})
    CHECK(fp8_findings(scaling, {of_size(1), of_size(3), of_size(0.1), zeros({8, 16})}).empty());
}

TEST_CASE("pitfall 40: a loss of several numbers is refused before it is scaled") {
  Booster booster({.mixed_precision = "fp16"});
  Model model = Net();
  auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  CHECK_THROWS_WITH_AS(booster.backward(net(ones({2, 6})), opt),
                       Contains("the loss must have one element; got shape (2, 3)"), Error);
}
