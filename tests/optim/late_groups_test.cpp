// Groups that join an optimizer after its schedule, its clip or its first step.
#include "core/optim/optimizers.h"
#include "core/optim/schedules/lr_scheduler.h"
#include "platform/error.h"
#include "tests/optim/leaf.h"

#include <doctest/doctest.h>

#include <functional>
#include <random>
#include <tuple>

using namespace booster;

namespace {

using MakeSchedule = std::function<LRScheduler(const Optimizer& optimizer)>;

Optimizer one_group() { return SGD({{{{"a", leaf({0})}}}}, {.lr = 1}); }
void add_late(Optimizer& optimizer, double lr) {
  optimizer.add_group({{{"b", leaf({0})}}, {{"lr", lr}}});
}

// PyTorch's schedules that update a group's current rate. Rates after `before` steps with one group
// and `after` more with a second one, which begins with 0.1.
struct LateGroup {
  const char* name;
  MakeSchedule make;
  double one_step[2], three_steps[2];  // both groups, after 1 and 4 steps, and after 3 and 2
};

// Values from PyTorch 2.15.
const LateGroup late_groups[] = {
    {"step",
     [](auto o) { return StepLR(o, {.step_size = 2, .gamma = 0.5}); },
     {0.25, 0.025},
     {0.25, 0.05}},
    {"multi_step",
     [](auto o) {
       return MultiStepLR(o, {.milestones = {2, 4}, .gamma = 0.5});
     },
     {0.25, 0.025},
     {0.25, 0.05}},
    {"exponential",
     [](auto o) { return ExponentialLR(o, {.gamma = 0.5}); },
     {0.03125, 0.00625},
     {0.03125, 0.025}},
    {"constant",
     [](auto o) { return ConstantLR(o, {.factor = 0.5, .total_steps = 3}); },
     {1, 0.2},
     {1, 0.1}},
    {"linear",
     [](auto o) { return LinearLR(o, {.start_factor = 1.0 / 3, .total_steps = 5}); },
     {1, 0.2142857142857143},
     {1, 0.13636363636363635}},
    {"cosine",
     [](auto o) { return CosineAnnealingLR(o, {.T_max = 10, .eta_min = 0.01}); },
     {0.505, 0.05612885339216125},
     {0.505, 0.06668272826571249}},
    {"polynomial",
     [](auto o) { return PolynomialLR(o, {.total_steps = 10, .power = 2}); },
     {0.25, 0.030864197530864203},
     {0.25, 0.05102040816326533}},
};

}  // namespace

TEST_CASE("a group that is added after the first step goes on from its rate, as PyTorch's do") {
  for (const LateGroup& one : late_groups)
    for (const auto& [before, after, want] :
         {std::tuple(1, 4, one.one_step), std::tuple(3, 2, one.three_steps)}) {
      CAPTURE(std::string(one.name));
      CAPTURE(before);
      Optimizer optimizer = one_group();
      LRScheduler scheduler = one.make(optimizer);
      for (int i = 0; i < before; ++i) scheduler.step();
      add_late(optimizer, 0.1);
      CHECK(optimizer.lr(1) == 0.1);
      for (int i = 0; i < after; ++i) scheduler.step();
      CHECK(optimizer.lr(0) == doctest::Approx(want[0]).epsilon(1e-12));
      CHECK(optimizer.lr(1) == doctest::Approx(want[1]).epsilon(1e-12));
    }
}

namespace {

const std::vector<std::pair<std::string, MakeSchedule>> all_schedules = {
    {"linear_warmup",
     [](auto o) { return LinearWarmupLR(o, {.warmup_steps = 5, .total_steps = 40}); }},
    {"cosine", [](auto o) { return CosineAnnealingLR(o, {.T_max = 40, .eta_min = 1e-3}); }},
    {"cosine_warmup",
     [](auto o) {
       return CosineAnnealingWarmupLR(o, {.warmup_steps = 5, .total_steps = 40, .eta_min = 1e-3});
     }},
    {"polynomial",
     [](auto o) { return PolynomialLR(o, {.total_steps = 40, .power = 2, .end_lr = 1e-3}); }},
    {"step", [](auto o) { return StepLR(o, {.step_size = 3, .gamma = 0.7}); }},
    {"multi_step",
     [](auto o) {
       return MultiStepLR(o, {.milestones = {4, 9, 9, 20}});
     }},
    {"exponential", [](auto o) { return ExponentialLR(o, {.gamma = 0.9}); }},
    {"constant", [](auto o) { return ConstantLR(o, {.factor = 0.5, .total_steps = 9}); }},
    {"linear", [](auto o) { return LinearLR(o, {.total_steps = 12}); }},
    {"one_cycle", [](auto o) { return OneCycleLR(o, {.max_lr = 1, .total_steps = 40}); }},
    {"sequential",
     [](auto o) {
       return SequentialLR(o, {LinearLR(o, {.total_steps = 4}), ExponentialLR(o, {.gamma = 0.9})},
                           {4});
     }},
    {"lambda", [](auto o) { return LambdaLR(o, [](int64_t t) { return 1.0 / (1.0 + t); }); }},
    {"linear_schedule_with_warmup",
     [](auto o) { return LinearScheduleWithWarmup(o, {.warmup_steps = 4, .total_steps = 40}); }},
    {"cosine_schedule_with_warmup",
     [](auto o) { return CosineScheduleWithWarmup(o, {.warmup_steps = 4, .total_steps = 40}); }},
    {"timm_cosine",
     [](auto o) {
       return TimmCosineLR(o, {.t_initial = 30, .warmup_t = 4, .warmup_lr_init = 1e-3});
     }},
};

}  // namespace

TEST_CASE("a group that is added before the first step is scheduled as if it had been there") {
  for (const auto& [name, make] : all_schedules) {
    CAPTURE(name);
    Optimizer late = one_group(), early = one_group();
    LRScheduler of_late = make(late);
    add_late(late, 0.3);
    add_late(early, 0.3);
    LRScheduler of_early = make(early);
    for (int i = 0; i < 30; ++i) {
      of_late.step();
      of_early.step();
      for (int group = 0; group < 2; ++group) {
        CHECK(late.lr(group) == early.lr(group));
        CHECK(late.options(group) == early.options(group));  // momentum too
      }
    }
  }
}

TEST_CASE("groups added at any step keep their proportion, and resume bit for bit") {
  std::mt19937 random(9);
  for (const auto& [name, make] : all_schedules)
    for (int round = 0; round < 5; ++round) {
      const int added = 1 + static_cast<int>(random() % 15), saved = static_cast<int>(random() % 9);
      CAPTURE(name);
      CAPTURE(added);
      Optimizer whole = one_group(), other = one_group();
      LRScheduler first = make(whole), second = make(other);
      for (int i = 0; i < added; ++i) first.step();
      // Half the first group's current rate; it stays half if the schedule multiplies base rates.
      const double rate = whole.lr() / 2;
      add_late(whole, rate);
      for (int i = 0; i < saved; ++i) first.step();
      add_late(other, rate);  // a program that resumes adds it at the start
      second.load_state_dict(first.state_dict());
      for (int i = 0; i < 8; ++i) {
        CHECK(other.lr(0) == whole.lr(0));
        // Before any step the given rate applies, not yet the schedule's.
        if (i > 0 || saved > 0) CHECK(other.lr(1) == whole.lr(1));
        const bool is_multiple = name == "step" || name == "multi_step" || name == "exponential" ||
                                 name == "constant" || name == "linear" || name == "lambda" ||
                                 name.starts_with("linear_") || name == "sequential";
        if (is_multiple && i > 0)
          CHECK(whole.lr(1) == doctest::Approx(whole.lr(0) / 2).epsilon(1e-12));
        first.step();
        second.step();
      }
    }
}

TEST_CASE("a plateau's schedule reduces groups that were added later") {
  Optimizer optimizer = one_group();
  ReduceLROnPlateau scheduler(optimizer, {.factor = 0.5, .patience = 0});
  scheduler.step(1);
  add_late(optimizer, 0.3);
  const LRSchedulerState between = scheduler.state_dict();
  scheduler.step(2);
  CHECK(optimizer.lr(0) == 0.5);
  CHECK(optimizer.lr(1) == 0.15);
  scheduler.load_state_dict(between);
  CHECK(optimizer.lr(1) == 0.3);
}

TEST_CASE("a group that no schedule can follow is an error that says why") {
  Optimizer each = one_group();
  LambdaLR lambdas(each, std::vector<LRFactor>{[](int64_t) { return 1.0; }});
  lambdas.step();
  CHECK_NOTHROW(add_late(each, 0.1));
  CHECK_NOTHROW(lambdas.step());  // a single function applies to all groups
  Optimizer two = SGD({{{{"a", leaf({0})}}}, {{{"c", leaf({0})}}}}, {.lr = 1});
  const LRFactor same = [](int64_t) { return 1.0; };
  LambdaLR one_each(two, std::vector<LRFactor>{same, same});
  one_each.step();
  add_late(two, 0.1);
  CHECK_THROWS_WITH_AS(one_each.step(),
                       doctest::Contains("lambda: group 2 was added after the schedule"), Error);
  CHECK(one_each.step_count() == 1);
  Optimizer ended = one_group();
  LinearWarmupLR to_zero(ended, {.warmup_steps = 0, .total_steps = 2});
  to_zero.step();
  to_zero.step();
  add_late(ended, 0.1);
  CHECK_THROWS_WITH_AS(
      to_zero.step(),
      "linear_warmup: group 1 was added too late; got rate 0.1 at step 2, after which the schedule "
      "gives 0 for any base, want the group before the schedule",
      Error);
}

TEST_CASE("a group that joins after a clip by norm is not clipped, and an error leaves no group") {
  const Tensor a = zeros({1}).requires_grad_(), b = zeros({1}).requires_grad_();
  Optimizer optimizer = SGD({{{{"a", a}}}}, {.lr = 1});
  a.set_grad(full({1}, 10));
  b.set_grad(full({1}, 10));
  optimizer.clip_grad_by_norm(1);
  optimizer.add_group({{{"b", b}}});
  optimizer.step();
  CHECK(a.item() == doctest::Approx(-1));
  CHECK(b.item() == doctest::Approx(-10));
  std::vector<std::string> seen;
  optimizer.on_new_group([&](Optimizer& owner, const Parameters& added) {
    CHECK(owner == optimizer);
    seen.push_back(added[0].name);
    check(added[0].name != "bad", "not this one");
  });
  CHECK_THROWS_AS(optimizer.add_group({{{"bad", zeros({1}).requires_grad_()}}}), Error);
  CHECK(optimizer.group_count() == 2);
  optimizer.add_group({{{"good", zeros({1}).requires_grad_()}}});
  CHECK(seen == std::vector<std::string>{"bad", "good"});
}
