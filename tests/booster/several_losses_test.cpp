// Several losses, models and optimizers with one Booster, against Apex's and torch's own patterns.
#include "booster/booster.h"
#include "booster/training/session.h"
#include "core/tensor/host_reads.h"
#include "tests/draws.h"
#include "tests/mixed_precision/weight.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <random>
#include <utility>

using namespace booster;
using booster::testing::Weight;

namespace {

// Returns two elements; the gradient of sum(w) * g is g for both.
Tensor start() { return from_vector(std::vector<float>{1, -2}, {2}); }

// f16 cannot hold a gradient above 0.99 at the initial scale, 65536.
Tensor loss_of(const std::vector<std::shared_ptr<Weight>>& modules,
               const std::vector<double>& gradients) {
  Tensor loss = scalar(0);
  for (size_t i = 0; i < modules.size(); ++i)
    loss = loss + sum(cast(modules[i]->w, DType::f32)) * gradients[i];
  return loss;
}

SGDOptions sgd() { return {.lr = 0.5, .momentum = 0.9}; }

// Two models, each with an optimizer.
struct Plain {
  std::vector<std::shared_ptr<Weight>> modules = {std::make_shared<Weight>(start()),
                                                  std::make_shared<Weight>(start())};
  Optimizer a = SGD(Model(modules[0]).parameters(), sgd()),
            b = SGD(Model(modules[1]).parameters(), sgd());

  std::vector<float> values(int i) const {
    return (i == 0 ? a : b).master_parameters()[0].tensor.to_vector<float>();
  }
};

// The same, boosted together.
struct Pair : Plain {
  Booster booster;
  BoostedGroup group;

  explicit Pair(Choice<Precision> precision,
                Choice<Plugin> plugin = SinglePlugin({.on_every_rank = true}))
      : booster({.plugin = plugin, .mixed_precision = precision}),
        group(booster.boost({Model(modules[0]), Model(modules[1])}, {a, b})) {}
  BoostedOptimizer& opt(int i) { return group.optimizers[static_cast<size_t>(i)]; }
  Precision& precision() { return *group.models[0].session().precision; }
};

PrecisionMaker apex(int losses, const char* level = "O2") {
  return FP16ApexMixedPrecision({.opt_level = level, .num_losses = losses, .verbosity = 0});
}

const double inf = INFINITY;

}  // namespace

TEST_CASE(
    "each loss has its own scaler: an overflow of loss 1 skips the step and halves only its") {
  for (const char* level : {"O1", "O2"}) {
    CAPTURE(level);
    auto module = std::make_shared<Weight>(start());
    Optimizer optimizer = SGD(Model(module).parameters(), sgd());
    Booster booster({.mixed_precision = apex(2, level)});
    auto [net, opt] = booster.boost(Model(module), optimizer);
    const auto iteration = [&, &opt = opt](double first, double second) {
      opt.zero_grad();
      booster.backward(loss_of({module}, {first}), opt, {.loss_id = 0});
      booster.backward(loss_of({module}, {second}), opt, {.loss_id = 1});
      return opt.step().skipped();
    };
    const auto scale = [&net = net](int id) {
      return net.session().precision->state().at(fmt::format("loss_scaler{}.loss_scale", id));
    };
    CHECK_FALSE(iteration(0.25, 0.125));
    CHECK(optimizer.master_parameters()[0].tensor.to_vector<float>()[0] == 1 - 0.5f * 0.375f);
    CHECK(iteration(0.25, inf));
    CHECK(optimizer.master_parameters()[0].tensor.to_vector<float>()[0] == 1 - 0.5f * 0.375f);
    CHECK(scale(0) == 65536);
    CHECK(scale(1) == 32768);
    CHECK(iteration(inf, 0.125));
    CHECK(scale(0) == 32768);
    CHECK(scale(1) == 32768);
    CHECK_FALSE(iteration(0.25, 0.125));
  }
}

TEST_CASE("boosted losses do what Apex's scale_loss does, bit for bit") {
  // Per iteration: the gradients of loss 0 for both models, then those of loss 1.
  const double plan[][4] = {{0.25, 0.5, 0.125, 0.3}, {0.2, inf, 0.3, 0.1}, {0.1, 0.7, inf, 0.2},
                            {0.3, 0.1, 0.2, 0.9},    {inf, 0.1, 0.1, inf}, {0.7, 0.3, 0.01, 0.6}};
  for (const char* level : {"O0", "O1", "O2", "O3"}) {
    for (const int losses : {1, 2}) {
      CAPTURE(level);
      CAPTURE(losses);
      Pair boosted(apex(losses, level));
      Plain plain;
      ApexAmp amp({.opt_level = level, .num_losses = losses});
      amp.initialize({plain.modules[0], plain.modules[1]}, {plain.a, plain.b});
      for (const auto& step : plan) {
        for (int i : {0, 1}) boosted.opt(i).zero_grad();
        plain.a.zero_grad();
        plain.b.zero_grad();
        for (int i : {0, 1}) {
          const std::vector<double> gradients = {step[2 * i], step[2 * i + 1]};
          const ScaleLossOptions options = {.loss_id = losses > 1 ? i : 0};
          boosted.booster.backward(loss_of(boosted.modules, gradients),
                                   {boosted.opt(0), boosted.opt(1)}, options);
          amp.scale_loss(
              loss_of(plain.modules, gradients), {plain.a, plain.b},
              [](const Tensor& scaled) { backward(scaled); }, options);
        }
        for (int i : {0, 1}) boosted.opt(i).step();
        amp.step(plain.a);
        amp.step(plain.b);
        for (int i : {0, 1})
          for (size_t j : {0, 1})
            CHECK(fmt::format("{:a}", boosted.values(i)[j]) ==
                  fmt::format("{:a}", plain.values(i)[j]));
        CHECK(boosted.precision().state() == amp.state());
      }
    }
  }
}

TEST_CASE("one loss for two optimizers: an overflow in the gradients of one skips both in Apex") {
  Pair pair(apex(1));
  const auto start = pair.values(1);
  pair.booster.backward(loss_of(pair.modules, {inf, 0.25}), {pair.opt(0), pair.opt(1)});
  CHECK(pair.opt(0).step().skipped());
  CHECK(pair.opt(1).step().skipped());
  CHECK(pair.values(1) == start);
  CHECK(pair.precision().state().at("loss_scaler0.loss_scale") == 32768);
}

TEST_CASE("delay_unscale leaves scaled gradients, which the next loss of that scaler unscales") {
  auto module = std::make_shared<Weight>(start());
  Optimizer optimizer = SGD(Model(module).parameters(), {.lr = 0.5});
  Booster booster({.mixed_precision = apex(2)});
  auto [net, opt] = booster.boost(Model(module), optimizer);
  booster.backward(loss_of({module}, {0.25}), opt, {.delay_unscale = true});
  CHECK(module->w.grad().to_vector<float>()[0] == 0.25f * 65536);
  CHECK_THROWS_WITH_AS(opt.step(), doctest::Contains("still scaled"), Error);
  CHECK_THROWS_WITH_AS(booster.backward(loss_of({module}, {0.25}), opt, {.loss_id = 1}),
                       doctest::Contains("still scaled for loss 0"), Error);
  booster.backward(loss_of({module}, {0.5}), opt);
  CHECK(module->w.grad().to_vector<float>()[0] == 0.75f);
  CHECK(net.session().precision->state().at("loss_scaler0.unskipped") == 1);
  const StepReport report = opt.step();
  CHECK_FALSE(report.skipped());
  CHECK(report.loss_scale() == 65536);
}

TEST_CASE("clipping sees the sum of the true gradients of all losses") {
  auto module = std::make_shared<Weight>(start());
  Optimizer optimizer = SGD(Model(module).parameters(), {.lr = 1});
  Booster booster({.mixed_precision = apex(2)});
  auto [net, opt] = booster.boost(Model(module), optimizer);
  booster.backward(loss_of({module}, {0.25}), opt);
  booster.backward(loss_of({module}, {0.5}), opt, {.loss_id = 1});
  CHECK(opt.clip_grad_by_norm(0.5) == doctest::Approx(0.75 * std::sqrt(2)));
  CHECK(opt.step().grad_norm() == doctest::Approx(0.75 * std::sqrt(2)));
  CHECK(optimizer.master_parameters()[0].tensor.to_vector<float>()[0] ==
        doctest::Approx(1 - 0.5 / std::sqrt(2)));
}

TEST_CASE("a loss_id that a strategy has not is an error that says what it has") {
  for (const auto& strategy : precision_registry().names()) {
    CAPTURE(strategy);
    Pair pair{strategy.c_str()};
    const auto lose = [&](const ScaleLossOptions& options) {
      pair.booster.backward(loss_of(pair.modules, {0.5, 0.5}), {pair.opt(0), pair.opt(1)}, options);
    };
    const char* want = strategy == "fp16_apex"
                           ? "want 0 to 0 (num_losses - 1)"
                           : "want 0: this strategy has one scale for all losses";
    CHECK_THROWS_WITH_AS(lose({.loss_id = 1}), doctest::Contains(want), Error);
    CHECK_THROWS_WITH_AS(lose({.loss_id = -1}), doctest::Contains("got -1"), Error);
    if (strategy != "fp16_apex")
      CHECK_THROWS_WITH_AS(lose({.delay_overflow_check = true}),
                           doctest::Contains("delay_overflow_check"), Error);
    CHECK_NOTHROW(lose({.delay_unscale = strategy != "fp16_apex"}));
  }
}

TEST_CASE(
    "torch's pattern: one scaler, optimizers that skip each by its own gradients, one update") {
  const double plan[][4] = {{0.25, 0.5, 0.125, 0.3},
                            {0.2, inf, 0.3, 0.1},
                            {0.1, 0.7, inf, inf},
                            {0.3, 0.1, 0.2, 0.9},
                            {0.1, 0.1, 0.1, 0.2}};
  const GradScalerOptions options = {.growth_interval = 2};
  Pair boosted{FP16TorchMixedPrecision(options)};
  Plain plain;
  GradScaler scaler(options);
  for (const auto& step : plan) {
    for (int i : {0, 1}) boosted.opt(i).zero_grad();
    plain.a.zero_grad();
    plain.b.zero_grad();
    // Loss 0 is for both models, loss 1 for the second one.
    boosted.booster.backward(loss_of(boosted.modules, {step[0], step[1]}),
                             {boosted.opt(0), boosted.opt(1)});
    boosted.booster.backward(loss_of({boosted.modules[1]}, {step[3]}), boosted.opt(1));
    backward(scaler.scale(loss_of(plain.modules, {step[0], step[1]})));
    backward(scaler.scale(loss_of({plain.modules[1]}, {step[3]})));
    const double before = scaler.get_scale();
    const bool bad_b = std::isinf(step[1]) || std::isinf(step[3]);
    const StepReport of_a = boosted.opt(0).step();
    CHECK(of_a.skipped() == std::isinf(step[0]));
    CHECK(boosted.precision().state().at("scale") == before);  // unchanged until all have stepped
    CHECK(boosted.opt(1).step().skipped() == bad_b);
    scaler.step(plain.a);
    scaler.step(plain.b);
    scaler.update();
    for (int i : {0, 1}) CHECK(boosted.values(i) == plain.values(i));
    CHECK(boosted.precision().state() == scaler.state_dict());
    CHECK(boosted.opt(0).loss_scale() == scaler.get_scale());
  }
}

TEST_CASE("a scale moves once for all optimizers, in every strategy, without a host read") {
  for (const auto& strategy : precision_registry().names()) {
    CAPTURE(strategy);
    Pair pair{strategy.c_str()};
    const std::vector<double> small = {1e-3, 1e-3}, bad = {1e-3, inf};
    for (const auto& gradients : {small, bad, small}) {
      for (int i : {0, 1}) pair.opt(i).zero_grad();
      const double scale = pair.opt(0).loss_scale();
      const int64_t before = host_reads();
      pair.booster.backward(loss_of(pair.modules, gradients), {pair.opt(0), pair.opt(1)});
      const StepReport first = pair.opt(0).step(), second = pair.opt(1).step();
      CHECK(host_reads() == before);
      CHECK(first.loss_scale() == scale);
      // These strategies do not check gradients; "auto" may be one of them.
      const std::string name = pair.precision().name();
      if (name == "fp32" || name == "fp64") continue;
      CHECK(second.skipped() == std::isinf(gradients[1]));
      CHECK(first.skipped() == (std::isinf(gradients[1]) && strategy == "fp16_apex"));
    }
  }
  Pair naive(FP16NaiveMixedPrecision({.hysteresis = 1}));
  naive.booster.backward(loss_of(naive.modules, {inf, inf}), {naive.opt(0), naive.opt(1)});
  naive.opt(0).step();
  naive.opt(1).step();
  CHECK(naive.precision().state().at("scale") == 32768);
  CHECK(naive.opt(1).loss_scale() == 32768);
  CHECK_THROWS_WITH_AS(naive.opt(0).loss_scale(1),
                       doctest::Contains("loss_id is out of range; got 1"), Error);
  Pair two(apex(2));
  two.booster.backward(loss_of(two.modules, {inf, 1}), {two.opt(0), two.opt(1)}, {.loss_id = 1});
  CHECK(two.opt(0).loss_scale(0) == 65536);
  CHECK(two.opt(0).loss_scale(1) == 32768);
}

TEST_CASE("an optimizer whose gradients are thrown away is not waited for") {
  Pair pair("fp16");
  pair.booster.backward(loss_of(pair.modules, {inf, 0.5}), {pair.opt(0), pair.opt(1)});
  pair.opt(0).step();
  CHECK(pair.precision().state().at("scale") == 65536);
  pair.opt(1).zero_grad();  // as for a discriminator after the generator's loss
  CHECK(pair.precision().state().at("scale") == 32768);
}

namespace {

// torch's loop: scaler.step of each optimizer that has a loss, then one scaler.update().
struct TorchScale {
  double scale = 16;
  int good = 0;
  void update(bool found_inf) {
    good = found_inf ? 0 : good + 1;
    if (found_inf) scale /= 2;
    if (good == 3) {
      scale *= 2;
      good = 0;
    }
  }
};

}  // namespace

TEST_CASE("a GAN's iteration moves the scale once, as torch's loop does") {
  for (const unsigned seed : booster::testing::draws(60)) {
    std::mt19937 random(seed);
    CAPTURE(seed);
    Pair gan(FP16TorchMixedPrecision({.init_scale = 16, .growth_interval = 3}));
    TorchScale torch;
    const int critic_steps = 1 + static_cast<int>(random() % 3);  // in each iteration
    const bool zeroes_late = random() % 2 == 0;
    for (int iteration = 0; iteration < 12; ++iteration) {
      bool found_inf = false;
      const auto step = [&](int i, const Tensor& loss, bool overflows) {
        if (!zeroes_late) gan.opt(i).zero_grad();
        const double scale = gan.opt(i).loss_scale();
        gan.booster.backward(loss, gan.opt(i));
        const StepReport report = gan.opt(i).step();
        CHECK(report.skipped() == overflows);
        // The scale of this loss: a pass may have moved it.
        CHECK(report.loss_scale() == torch.scale);
        CHECK((scale == torch.scale || critic_steps > 1));
        if (zeroes_late) gan.opt(i).zero_grad();
        found_inf |= overflows;
      };
      for (int k = 0; k < critic_steps; ++k) {
        if (k > 0) torch.update(std::exchange(found_inf, false));  // it may not step twice
        const bool overflows = random() % 4 == 0;
        step(1, loss_of({gan.modules[1]}, {overflows ? inf : 0.5}), overflows);
      }
      const bool overflows = random() % 4 == 0;
      // The generator's loss gives the critic gradients as well, which it throws away.
      step(0, loss_of(gan.modules, {overflows ? inf : 0.5, 0.5}), overflows);
      torch.update(found_inf);
      CHECK(gan.opt(0).loss_scale() == torch.scale);
    }
  }
}

TEST_CASE("several models are called one by one, and optimizers of two boosts do not mix") {
  Pair pair("fp32"), other("fp32");
  CHECK(pair.group.models[1](ones({2})).to_vector<float>() == std::vector<float>{1, -2});
  CHECK_THROWS_WITH_AS(pair.group.models[0].session().model(ones({2})),
                       doctest::Contains("separate calls of each"), Error);
  CHECK_THROWS_WITH_AS(
      pair.booster.backward(loss_of(pair.modules, {1, 1}), {pair.opt(0), other.opt(1)}),
      doctest::Contains("not boosted together"), Error);
  CHECK_THROWS_WITH_AS(pair.booster.boost(std::vector<Model>{}, std::vector<Optimizer>{}),
                       doctest::Contains("at least one"), Error);
}

TEST_CASE("rank: an unsynced group" * doctest::skip()) {
  const double own = launch_from_env().rank + 1;  // 1 and 2: 1.5 on average
  for (const char* plugin : {"torch_ddp", "low_level_zero"}) {
    CAPTURE(plugin);
    Pair pair("fp32", plugin);
    const auto backward = [&](double first, double second) {
      const Tensor x = ones({2});
      const auto& models = pair.group.models;
      pair.booster.backward(sum(models[0](x)) * first + sum(models[1](x)) * second,
                            {pair.opt(0), pair.opt(1)});
    };
    {
      const NoSyncGuard local = pair.booster.no_sync(pair.group);
      backward(own, 10 * own);
      for (size_t i : {0, 1})
        CHECK(pair.modules[i]->w.grad().to_vector<float>()[0] == (i == 0 ? own : 10 * own));
    }
    backward(1, 2);  // with the accumulated gradients
    for (int i : {0, 1}) pair.opt(i).step();
    CHECK(pair.modules[0]->w.to_vector<float>()[0] == 1 - 0.5f * 2.5f);
    CHECK(pair.modules[1]->w.to_vector<float>()[0] == 1 - 0.5f * 17);
  }
}
TEST_CASE("no_sync of a group keeps the gradients of all its models on their rank") {
  CHECK(failures(Ranks("rank: an unsynced group", 2).wait(120)) == "");
}

TEST_CASE("what a scaler refuses stands in the report, with what it means") {
  Pair pair{FP16TorchMixedPrecision({.init_scale = 0x1p-126})};
  const auto refusal = [&](double gradient) {
    for (int i : {0, 1}) pair.opt(i).zero_grad();
    pair.booster.backward(loss_of(pair.modules, {gradient, 1}), {pair.opt(0), pair.opt(1)});
    pair.opt(0).step();
    return pair.opt(1).step().refusal();
  };
  CHECK(refusal(1) == "");
  CHECK(refusal(inf) == "");  // 2^-127 is still usable
  CHECK(refusal(inf).find("collapsed") != std::string::npos);
  CHECK(refusal(1).find("(1 times)") != std::string::npos);
}

TEST_CASE("rank: last overflow" * doctest::skip()) {
  Pair pair(FP16ApexMixedPrecision({.opt_level = "O2", .verbosity = 2}));
  pair.booster.backward(loss_of(pair.modules, {inf, 1}), {pair.opt(0), pair.opt(1)});
  for (int i : {0, 1}) pair.opt(i).step();
}
TEST_CASE("the overflow of the very last step is told when the session ends") {
  const auto result = Ranks("rank: last overflow", 1).wait(60);
  CHECK(result[0].output.find("Skipping step, loss scaler 0 reducing loss scale to 32768.0") !=
        std::string::npos);
}
