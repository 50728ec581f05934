// Schedulers against PyTorch's sequences and the stated formulas, and their edge cases.
#include "core/optim/adam.h"
#include "core/optim/lr_scheduler.h"
#include "core/optim/sgd.h"
#include "tests/optim/golden.h"

using namespace booster;
using namespace booster::test;

namespace {

Tensor leaf() { return zeros({1}).requires_grad_(); }

struct Report {
  bool value;
  bool skipped() const { return value; }
};

OneCycleOptions one_cycle_options(const Json& o) {
  OneCycleOptions options;
  options.max_lr = o["max_lr"];
  options.total_steps = o["total_steps"];
  options.pct_start = o.value("pct_start", options.pct_start);
  options.anneal_strategy = o.value("anneal_strategy", options.anneal_strategy);
  options.base_momentum = o.value("base_momentum", options.base_momentum);
  options.max_momentum = o.value("max_momentum", options.max_momentum);
  options.div_factor = o.value("div_factor", options.div_factor);
  options.final_div_factor = o.value("final_div_factor", options.final_div_factor);
  options.three_phase = o.value("three_phase", options.three_phase);
  return options;
}

LRScheduler scheduler_of(const Json& one, const Optimizer& optimizer) {
  const Json& o = one["options"];
  const std::string kind = one["schedule"];
  if (kind == "linear_warmup")
    return LinearWarmupLR(optimizer, {o["warmup_steps"], o["total_steps"]});
  if (kind == "cosine_warmup")
    return CosineAnnealingWarmupLR(optimizer, {o["warmup_steps"], o["total_steps"]});
  if (kind == "cosine") return CosineAnnealingLR(optimizer, {o["T_max"], o["eta_min"]});
  if (kind == "polynomial") return PolynomialLR(optimizer, {o["total_steps"], o["power"]});
  if (kind == "step") return StepLR(optimizer, {o["step_size"], o["gamma"]});
  if (kind == "multi_step")
    return MultiStepLR(optimizer, {o["milestones"].get<std::vector<int64_t>>(), o["gamma"]});
  if (kind == "exponential") return ExponentialLR(optimizer, {o["gamma"]});
  if (kind == "constant") return ConstantLR(optimizer, {o["factor"], o["total_steps"]});
  if (kind == "linear")
    return LinearLR(optimizer, {o["start_factor"], o["end_factor"], o["total_steps"]});
  if (kind == "lambda")
    return LambdaLR(optimizer, [](int64_t t) { return std::pow(0.95, double(t)); });
  return OneCycleLR(optimizer, one_cycle_options(o));
}

Optimizer optimizer_for(const Json& one) {
  if (one.value("optimizer", "sgd") == "adamw") return AdamW({leaf()}, {.lr = one["base"]});
  return SGD({leaf()}, {.lr = one["base"], .momentum = 0.9});
}

}  // namespace

TEST_CASE("rates agree with PyTorch's and the stated formulas at every step") {
  const Json schedules = golden("schedules");
  for (const Json& one : schedules["cases"]) {
    CAPTURE(one["case"].get<std::string>());
    auto optimizer = optimizer_for(one);
    auto scheduler = scheduler_of(one, optimizer);
    const double base = one["base"];
    Numbers rates, momenta;
    const char* momentum = optimizer.options().count("momentum") ? "momentum" : "beta1";
    for (size_t t = 0; t < one["lrs"].size(); ++t) {
      if (t > 0) scheduler.step();
      rates.push_back(optimizer.lr());
      momenta.push_back(optimizer.options().at(momentum));
    }
    check_close(rates, one["lrs"], 1e-12, 1e-14 * base);
    if (one.contains("momenta")) check_close(momenta, one["momenta"], 1e-12, 0);
  }
}

TEST_CASE("every group keeps its own base rate") {
  auto optimizer = SGD({{{{"a", leaf()}}}, {{{"b", leaf()}}, {{"lr", 0.5}}}}, {.lr = 0.1});
  auto scheduler = ExponentialLR(optimizer, {.gamma = 0.1});
  scheduler.step();
  CHECK(optimizer.lr(0) == doctest::Approx(0.01));
  CHECK(optimizer.lr(1) == doctest::Approx(0.05));
  auto lambdas = LambdaLR(optimizer, {[](int64_t) { return 2.0; }, [](int64_t) { return 3.0; }});
  CHECK(optimizer.lr(0) == doctest::Approx(0.02));
  CHECK(optimizer.lr(1) == doctest::Approx(0.15));
  CHECK_THROWS_AS(LambdaLR(optimizer, std::vector<LRFactor>(3, [](int64_t) { return 1.0; })),
                  Error);
}

TEST_CASE("one cycle in straight lines ends with the training") {
  for (const int64_t total : {1, 2, 10, 33}) {
    CAPTURE(total);
    auto optimizer = SGD({leaf()}, {.lr = 1, .momentum = 0.9});
    auto scheduler =
        OneCycleLR(optimizer, {.max_lr = 0.3, .total_steps = total, .anneal_strategy = "linear"});
    for (int64_t t = 0; t < total; ++t) scheduler.step();
    CHECK(optimizer.lr() >= 0);
    CHECK(optimizer.lr() < 1e-5);
    CHECK_THROWS_AS(scheduler.step(), Error);
  }
}

TEST_CASE("a skipped optimizer step does not move the scheduler") {
  auto optimizer = SGD({leaf()}, {.lr = 1});
  auto scheduler = ExponentialLR(optimizer, {.gamma = 0.5});
  scheduler.step(Report{true});
  CHECK(optimizer.lr() == 1);
  scheduler.step(Report{false});
  CHECK(optimizer.lr() == 0.5);
  CHECK(scheduler.step_count() == 1);
}

TEST_CASE("a scheduler goes on from saved state exactly") {
  auto first = SGD({leaf()}, {.lr = 0.3});
  auto a = CosineAnnealingWarmupLR(first, {.warmup_steps = 3, .total_steps = 20});
  for (int i = 0; i < 7; ++i) a.step();
  auto second = SGD({leaf()}, {.lr = 0.9});
  auto b = CosineAnnealingWarmupLR(second, {.warmup_steps = 3, .total_steps = 20});
  b.load_state_dict(a.state_dict());
  for (int i = 0; i < 10; ++i) {
    CHECK(first.lr() == second.lr());
    a.step();
    b.step();
  }
  auto other = StepLR(second, {.step_size = 2});
  CHECK_THROWS_WITH_AS(other.load_state_dict(a.state_dict()),
                       "load_state_dict: saved by another scheduler; got cosine_warmup, want step",
                       Error);
  auto bad = a.state_dict();
  bad.base_lrs = {NAN};
  CHECK_THROWS_AS(b.load_state_dict(bad), Error);
  bad.base_lrs = {1, 2};
  CHECK_THROWS_AS(b.load_state_dict(bad), Error);
  CHECK(first.lr() == second.lr());
}

TEST_CASE("state whose rate one group refuses leaves the rates of all groups") {
  auto optimizer = SGD({{{{"a", leaf()}}}, {{{"b", leaf()}}, {{"lr", 0.1}}}}, {.lr = 0});
  auto scheduler = ExponentialLR(optimizer, {.gamma = 1e200});
  LRSchedulerState state = scheduler.state_dict();
  state.base_lrs[0] = 1e-300;
  state.step = 2;
  CHECK_THROWS_AS(scheduler.load_state_dict(state), Error);
  CHECK(optimizer.lr(0) == 0);
  CHECK(optimizer.lr(1) == 0.1);
  CHECK(scheduler.step_count() == 0);
  CHECK(scheduler.state_dict().base_lrs == std::vector<double>{0, 0.1});
}

TEST_CASE("one-cycle ends with an error and needs something to cycle") {
  auto optimizer = SGD({leaf()}, {.lr = 0.1});
  auto scheduler = OneCycleLR(optimizer, {.max_lr = 1, .total_steps = 3});
  for (int i = 0; i < 3; ++i) scheduler.step();
  CHECK_THROWS_AS(scheduler.step(), Error);
  CHECK(scheduler.step_count() == 3);
  CHECK_THROWS_AS(
      OneCycleLR(optimizer, {.max_lr = 1, .total_steps = 3, .anneal_strategy = "cosine"}), Error);
  auto still = OneCycleLR(optimizer, {.max_lr = 1, .total_steps = 9, .cycle_momentum = false});
  const double momentum = optimizer.options().at("momentum");
  still.step();
  CHECK(optimizer.options().at("momentum") == momentum);
}

TEST_CASE("options out of range are refused") {
  const auto optimizer = SGD({leaf()}, {.lr = 0.1});
  CHECK_THROWS_WITH_AS(LinearWarmupLR(optimizer, {.warmup_steps = 5}),
                       "linear_warmup: total_steps is out of range; got 0, want at least 1", Error);
  CHECK_THROWS_AS(LinearWarmupLR(optimizer, {.warmup_steps = -1, .total_steps = 5}), Error);
  CHECK_THROWS_WITH_AS(LinearWarmupLR(optimizer, {.warmup_steps = 6, .total_steps = 5}),
                       "linear_warmup: warmup_steps is more than total_steps; got 6 and 5, want "
                       "at most 5",
                       Error);
  CHECK_THROWS_AS(CosineAnnealingWarmupLR(optimizer, {.warmup_steps = 6, .total_steps = 5}), Error);
  CHECK_THROWS_AS(CosineAnnealingLR(optimizer, {}), Error);
  CHECK_THROWS_AS(StepLR(optimizer, {.step_size = 0}), Error);
  CHECK_THROWS_AS(StepLR(optimizer, {.step_size = 1, .gamma = NAN}), Error);
  CHECK_THROWS_AS(MultiStepLR(optimizer, {.milestones = {-1}}), Error);
  CHECK_THROWS_AS(PolynomialLR(optimizer, {.total_steps = 0}), Error);
  CHECK(optimizer.lr() == 0.1);
  CHECK_NOTHROW(CosineAnnealingWarmupLR(optimizer, {.warmup_steps = 5, .total_steps = 5}));
}
