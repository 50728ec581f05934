// Schedulers against PyTorch's sequences and the stated formulas, and their edge cases.
#include "core/optim/optimizers.h"
#include "core/optim/schedules/lr_scheduler.h"
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

CyclicOptions cyclic_options(const Json& o) {
  CyclicOptions options;
  options.base_lr = o["base_lr"];
  options.max_lr = o["max_lr"];
  options.step_size_up = o["step_size_up"];
  options.step_size_down = o.value("step_size_down", options.step_size_down);
  options.mode = o.value("mode", options.mode);
  options.gamma = o.value("gamma", options.gamma);
  options.base_momentum = o.value("base_momentum", options.base_momentum);
  options.max_momentum = o.value("max_momentum", options.max_momentum);
  return options;
}

TimmCosineOptions timm_options(const Json& o) {
  TimmCosineOptions options;
  options.t_initial = o["t_initial"];
  options.lr_min = o.value("lr_min", options.lr_min);
  options.cycle_mul = o.value("cycle_mul", options.cycle_mul);
  options.cycle_decay = o.value("cycle_decay", options.cycle_decay);
  options.cycle_limit = o.value("cycle_limit", options.cycle_limit);
  options.warmup_t = o.value("warmup_t", options.warmup_t);
  options.warmup_lr_init = o.value("warmup_lr_init", options.warmup_lr_init);
  options.warmup_prefix = o.value("warmup_prefix", options.warmup_prefix);
  options.k_decay = o.value("k_decay", options.k_decay);
  options.steps_per_epoch = o.value("steps_per_epoch", options.steps_per_epoch);
  return options;
}

ReduceLROnPlateauOptions plateau_options(const Json& o) {
  ReduceLROnPlateauOptions options;
  options.mode = o.value("mode", options.mode);
  options.factor = o.value("factor", options.factor);
  options.patience = o.value("patience", options.patience);
  options.threshold = o.value("threshold", options.threshold);
  options.threshold_mode = o.value("threshold_mode", options.threshold_mode);
  options.cooldown = o.value("cooldown", options.cooldown);
  options.min_lr = o.value("min_lr", options.min_lr);
  options.eps = o.value("eps", options.eps);
  return options;
}

// Returns the schedule of make_optim.py.
LRScheduler part_of_sequence(const std::string& name, const Optimizer& optimizer) {
  if (name == "linear") return LinearLR(optimizer, {0.25, 1, 4});
  if (name == "cosine") return CosineAnnealingLR(optimizer, {6, 0.01});
  if (name == "exponential") return ExponentialLR(optimizer, {0.8});
  if (name == "constant") return ConstantLR(optimizer, {0.5, 3});
  if (name == "step") return StepLR(optimizer, {2, 0.5});
  if (name == "polynomial") return PolynomialLR(optimizer, {8, 2});
  if (name == "multiplicative")
    return MultiplicativeLR(optimizer, [](int64_t t) { return 1 - 0.3 / double(t); });
  REQUIRE(name == "multi_step");
  return MultiStepLR(optimizer, {{1, 3}, 0.5});
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
  if (kind == "linear_schedule_with_warmup")
    return LinearScheduleWithWarmup(optimizer, {o["warmup_steps"], o["total_steps"]});
  if (kind == "cosine_schedule_with_warmup")
    return CosineScheduleWithWarmup(optimizer,
                                    {o["warmup_steps"], o["total_steps"], o["num_cycles"]});
  if (kind == "timm_cosine") return TimmCosineLR(optimizer, timm_options(o));
  if (kind == "sequential" || kind == "chained") {
    std::vector<LRScheduler> parts;
    for (const std::string part : o["parts"]) parts.push_back(part_of_sequence(part, optimizer));
    if (kind == "chained") return ChainedScheduler(optimizer, parts);
    return SequentialLR(optimizer, parts, o["milestones"].get<std::vector<int64_t>>());
  }
  if (kind == "multiplicative") return part_of_sequence(kind, optimizer);
  if (kind == "cosine_warm_restarts")
    return CosineAnnealingWarmRestarts(optimizer, {o["T_0"], o["T_mult"], o["eta_min"]});
  if (kind == "cyclic") return CyclicLR(optimizer, cyclic_options(o));
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

TEST_CASE("rates fall on a plateau as PyTorch's, and go on from saved state at any step") {
  const Json schedules = golden("schedules");
  for (const Json& one : schedules["plateaus"]) {
    CAPTURE(one["options"].dump());
    auto optimizer = SGD({leaf()}, {.lr = 0.1}), resumed = SGD({leaf()}, {.lr = 0.7});
    auto scheduler = ReduceLROnPlateau(optimizer, plateau_options(one["options"]));
    Numbers rates;
    for (const double metric : one["metrics"]) {
      auto later = ReduceLROnPlateau(resumed, plateau_options(one["options"]));
      later.load_state_dict(scheduler.state_dict());
      CHECK(resumed.lr() == optimizer.lr());
      scheduler.step(metric);
      later.step(metric);
      CHECK(resumed.lr() == optimizer.lr());
      CHECK(later.state_dict().memory == scheduler.state_dict().memory);
      rates.push_back(optimizer.lr());
    }
    check_close(rates, one["lrs"], 1e-12, 1e-15);
  }
}

TEST_CASE("an infinite metric stays the best one when a plateau's schedule goes on") {
  for (const char* mode : {"min", "max"}) {
    CAPTURE(mode);
    const ReduceLROnPlateauOptions options = {.mode = mode, .factor = 0.5, .patience = 1};
    auto optimizer = SGD({leaf()}, {.lr = 0.1}), resumed = SGD({leaf()}, {.lr = 0.7});
    auto scheduler = ReduceLROnPlateau(optimizer, options);
    scheduler.step(mode == std::string("min") ? -INFINITY : INFINITY);
    auto later = ReduceLROnPlateau(resumed, options);
    later.load_state_dict(scheduler.state_dict());
    for (LRScheduler one : {LRScheduler(scheduler), LRScheduler(later)}) {
      for (int i = 0; i < 2; ++i) one.step(0.0);
      CHECK(one.lr() == doctest::Approx(0.05));
    }
    CHECK(later.state_dict().memory == scheduler.state_dict().memory);
  }
}

TEST_CASE("a plateau's schedule follows every group and rates that others set") {
  auto optimizer = SGD({{{{"a", leaf()}}}, {{{"b", leaf()}}, {{"lr", 0.5}}}}, {.lr = 0.1});
  LRScheduler scheduler = ReduceLROnPlateau(optimizer, {.factor = 0.5, .patience = 0});
  scheduler.step(1);
  optimizer.set_option(0, "lr", 0.4);
  scheduler.step(1.0);
  CHECK(optimizer.lr(0) == doctest::Approx(0.2));
  CHECK(optimizer.lr(1) == doctest::Approx(0.25));
  CHECK_THROWS_WITH_AS(scheduler.step(), doctest::Contains("needs a metric"), Error);
  CHECK_THROWS_WITH_AS(scheduler.step(Report{false}), doctest::Contains("needs a metric"), Error);
  CHECK_NOTHROW(scheduler.step(Report{true}));
  auto other = StepLR(optimizer, {.step_size = 2});
  CHECK_THROWS_WITH_AS(other.step(0.5), "step: step takes no metric; got 0.5, want step()", Error);
}

TEST_CASE("a plateau's schedule refuses options and state that are not its own") {
  auto optimizer = SGD({leaf()}, {.lr = 0.1});
  CHECK_THROWS_WITH_AS(ReduceLROnPlateau(optimizer, {.mode = "mni"}),
                       doctest::Contains("did you mean min?"), Error);
  CHECK_THROWS_AS(ReduceLROnPlateau(optimizer, {.factor = 1}), Error);
  CHECK_THROWS_AS(ReduceLROnPlateau(optimizer, {.patience = -1}), Error);
  CHECK_THROWS_AS(ReduceLROnPlateau(optimizer, {.threshold_mode = "relative"}), Error);
  auto scheduler = ReduceLROnPlateau(optimizer);
  scheduler.step(3.0);
  LRSchedulerState state = scheduler.state_dict();
  state.memory.erase("bad_steps");
  CHECK_THROWS_AS(scheduler.load_state_dict(state), Error);
  CHECK(scheduler.state_dict().memory.at("best") == 3);
}

TEST_CASE("a plateau's schedule refuses rates of fewer or more groups than it has") {
  auto optimizer = SGD({{{{"a", leaf()}}}, {{{"b", leaf()}}, {{"lr", 0.5}}}}, {.lr = 0.1});
  auto scheduler = ReduceLROnPlateau(optimizer);
  scheduler.step(3.0);
  LRSchedulerState fewer = scheduler.state_dict(), more = fewer, none = fewer;
  fewer.memory.erase("lr.1");
  more.memory["lr.2"] = 0.3;
  none.memory.erase("lr.0");
  none.memory.erase("lr.1");
  CHECK_THROWS_WITH_AS(scheduler.load_state_dict(fewer), doctest::Contains("got 1, want 2"), Error);
  CHECK_THROWS_WITH_AS(scheduler.load_state_dict(more), doctest::Contains("got 3, want 2"), Error);
  CHECK(scheduler.lr(1) == 0.5);
  scheduler.load_state_dict(none);
  CHECK(scheduler.lr(1) == 0.5);
}

TEST_CASE("a sequence begins with the first schedule's base and refuses what it cannot follow") {
  auto optimizer = SGD({leaf()}, {.lr = 0.1}), other = SGD({leaf()}, {.lr = 0.1});
  auto first = ConstantLR(optimizer, {0.5, 3});
  auto second = ExponentialLR(optimizer, {0.5});
  auto scheduler = SequentialLR(optimizer, {first, second}, {2});
  CHECK(optimizer.lr() == doctest::Approx(0.05));
  scheduler.step();
  scheduler.step();
  CHECK(optimizer.lr() == doctest::Approx(0.1));
  const LRSchedulerState state = scheduler.state_dict();
  CHECK(state.settings.at("milestones") == "2");
  CHECK(state.settings.at("1") == "exponential");
  CHECK(state.settings.at("1.gamma") == "0.5");
  const auto refused = [&](std::vector<LRScheduler> parts, std::vector<int64_t> milestones) {
    CHECK_THROWS_AS(SequentialLR(optimizer, parts, milestones), Error);
  };
  refused({}, {});
  refused({first, second}, {});
  refused({first, second}, {0});
  refused({first, second, second}, {3, 3});
  refused({first, ReduceLROnPlateau(optimizer)}, {3});
  refused({first, ExponentialLR(other, {0.5})}, {3});
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
  CHECK_THROWS_AS(LinearScheduleWithWarmup(optimizer, {.warmup_steps = 6, .total_steps = 5}),
                  Error);
  CHECK_THROWS_AS(CosineScheduleWithWarmup(optimizer, {}), Error);
  CHECK_THROWS_AS(TimmCosineLR(optimizer, {}), Error);
  CHECK_THROWS_AS(TimmCosineLR(optimizer, {.t_initial = 3, .cycle_mul = 0.5}), Error);
  CHECK(optimizer.lr() == 0.1);
  CHECK_NOTHROW(CosineAnnealingWarmupLR(optimizer, {.warmup_steps = 5, .total_steps = 5}));
}

TEST_CASE("schedules of parts and cycles refuse what does not fit") {
  auto optimizer = SGD({leaf()}, {.lr = 0.1}), other = SGD({leaf()}, {.lr = 0.1});
  const auto chained = [&](const LRScheduler& part) {
    return ChainedScheduler(optimizer, {ExponentialLR(optimizer, {0.9}), part});
  };
  CHECK_THROWS_AS(ChainedScheduler(optimizer, {}), Error);
  CHECK_THROWS_WITH_AS(chained(ExponentialLR(other, {0.9})),
                       "chained: exponential was made for another optimizer", Error);
  CHECK_THROWS_WITH_AS(chained(ReduceLROnPlateau(optimizer)), doctest::Contains("needs a metric"),
                       Error);
  CHECK_THROWS_WITH_AS(chained(CyclicLR(optimizer, {.base_lr = 0.1, .max_lr = 1})),
                       "chained: cyclic cannot be a part, because it sets the rate", Error);
  auto late = chained(CosineAnnealingLR(optimizer, {.T_max = 4, .eta_min = 0.01}));
  CHECK_THROWS_WITH_AS(late.step(), doctest::Contains("cosine does not multiply the rate"), Error);
  CHECK_THROWS_AS(CyclicLR(optimizer, {.base_lr = 0.1, .max_lr = 1, .step_size_up = 0}), Error);
  CHECK_THROWS_WITH_AS(CyclicLR(optimizer, {.max_lr = 1, .mode = "triangular3"}),
                       doctest::Contains("cyclic: no such mode; got triangular3"), Error);
  CHECK_THROWS_AS(CosineAnnealingWarmRestarts(optimizer, {.T_0 = 0}), Error);
  CHECK_THROWS_AS(CosineAnnealingWarmRestarts(optimizer, {.T_0 = 1, .T_mult = 0}), Error);
}

TEST_CASE("a product of factors is the same when a schedule goes back and on") {
  auto optimizer = SGD({leaf()}, {.lr = 0.1});
  LRScheduler scheduler =
      MultiplicativeLR(optimizer, [](int64_t t) { return 1 - 0.3 / double(t); });
  std::vector<double> rates;
  std::vector<LRSchedulerState> states;
  for (int t = 0; t < 8; ++t) {
    rates.push_back(optimizer.lr());
    states.push_back(scheduler.state_dict());
    scheduler.step();
  }
  for (const size_t t : {5, 2, 7, 0}) {
    scheduler.load_state_dict(states[t]);
    CHECK(optimizer.lr() == rates[t]);
  }
}
