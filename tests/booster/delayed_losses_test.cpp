// fp16_apex with one scaler per loss: random sequences with passes that leave gradients scaled.
#include "booster/booster.h"
#include "booster/training/session.h"
#include "tests/mixed_precision/weight.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

using namespace booster;
using booster::testing::Weight;

namespace {

constexpr double lr = 0.5;

// Two weights with an optimizer each, and their expected values and gradients.
class TwoWeights {
 public:
  explicit TwoWeights(const char* level)
      : booster_(
            {.mixed_precision = FP16ApexMixedPrecision(
                 {.opt_level = level, .num_losses = 2, .verbosity = 0, .max_loss_scale = 256})}),
        group_(booster_.boost({Model(modules_[0]), Model(modules_[1])},
                              {SGD(Model(modules_[0]).parameters(), {.lr = lr}),
                               SGD(Model(modules_[1]).parameters(), {.lr = lr})})) {}

  // Returns false if the pass is illegal: an optimizer's gradients are scaled for the other loss.
  bool pass(int reaches, int names, int loss_id, bool delay, double slope) {
    for (const size_t i : {0, 1})
      if (((reaches | names) >> i & 1) && scaled_by_[i] >= 0 && scaled_by_[i] != loss_id)
        return false;
    Tensor loss;
    std::vector<BoostedOptimizer> named;
    for (const size_t i : {0, 1}) {
      if (names >> i & 1) named.push_back(group_.optimizers[i]);
      if (!(reaches >> i & 1)) continue;
      const Tensor one = sum(cast(group_.models[i](ones({1})), DType::f32)) * slope;
      loss = loss.defined() ? loss + one : one;
    }
    booster_.backward(loss, named, {.loss_id = loss_id, .delay_unscale = delay});
    for (const size_t i : {0, 1}) {
      if (reaches >> i & 1) gradient_[i] += slope;
      if (delay && ((reaches | names) >> i & 1)) scaled_by_[i] = loss_id;
      if (!delay && (names >> i & 1)) scaled_by_[i] = -1;
    }
    return true;
  }
  // Makes a loss overflow, which halves its scale.
  bool overflow(size_t i, int loss_id) {
    if (!pass(1 << i, 1 << i, loss_id, false, INFINITY)) return false;
    zero_grad(i);
    return true;
  }
  void zero_grad(size_t i) {
    group_.optimizers[i].zero_grad();
    gradient_[i] = 0;
    scaled_by_[i] = -1;
  }
  void clip_value(size_t i, double limit) {
    group_.optimizers[i].clip_grad_by_value(limit);
    gradient_[i] = std::clamp(gradient_[i], -limit, limit);
    scaled_by_[i] = -1;
  }
  void clip_norm(size_t i, double limit) {
    group_.optimizers[i].clip_grad_by_norm(limit);
    gradient_[i] *= std::min(1.0, limit / (std::abs(gradient_[i]) + 1e-6));
  }
  void step(size_t i) {
    if (scaled_by_[i] >= 0) {
      CHECK_THROWS_WITH_AS(group_.optimizers[i].step(), doctest::Contains("still scaled"), Error);
      return;
    }
    CHECK_FALSE(group_.optimizers[i].step().skipped());
    value_[i] -= lr * gradient_[i];
  }

  // Returns "" or what is wrong.
  std::string compare() const {
    const auto close = [](double a, double b) {
      return std::abs(a - b) < 2e-3 * (1 + std::abs(b));
    };
    for (const size_t i : {0, 1}) {
      const Optimizer optimizer = group_.optimizers[i].unwrap();
      const Tensor master = optimizer.master("w");
      const double value = (master.defined() ? master : modules_[i]->w).to_vector<double>()[0];
      if (!close(value, value_[i])) return fmt::format("w{}: got {}, want {}", i, value, value_[i]);
      const double gradient = true_gradient(i, optimizer);
      if (!close(gradient, gradient_[i]))
        return fmt::format("gradient {}: got {}, want {}", i, gradient, gradient_[i]);
    }
    return "";
  }

 private:
  double true_gradient(size_t i, const Optimizer& optimizer) const {
    const GradientKeeper::Scope raw;
    const Tensor grad = modules_[i]->w.grad();
    if (!grad.defined()) return 0;
    const Tensor clip = optimizer.pending_clip(),
                 factor = group_.models[0].session().precision->gradient_factor(optimizer);
    return grad.to_vector<double>()[0] * (clip.defined() ? clip.item() : 1) *
           (factor.defined() ? factor.item() : 1);
  }

  std::array<std::shared_ptr<Weight>, 2> modules_ = {std::make_shared<Weight>(ones({1})),
                                                     std::make_shared<Weight>(ones({1}))};
  Booster booster_;
  BoostedGroup group_;
  std::array<double, 2> value_ = {1, 1}, gradient_ = {};
  std::array<int, 2> scaled_by_ = {-1, -1};
};

}  // namespace

TEST_CASE("drawn losses that leave gradients scaled add up to true gradients") {
  for (const char* level : {"O1", "O2"})
    for (uint32_t n = 0; n < 300; ++n) {
      std::mt19937 random(n);
      const auto below = [&](int limit) { return static_cast<int>(random() % unsigned(limit)); };
      TwoWeights loop(level);
      std::string text = level;
      for (int i = 0; i < 14; ++i) {
        const auto model = static_cast<size_t>(below(2));
        const double limit = below(2) ? 0.25 : 1;
        const int call = below(12);
        if (call < 6) {
          const int reaches = 1 + below(3), names = 1 + below(3), loss_id = below(2);
          const bool delay = below(2);
          if (loop.pass(reaches, names, loss_id, delay, below(2) ? 0.25 : 0.5))
            text += fmt::format("; pass {} names {} loss {}{}", reaches, names, loss_id,
                                delay ? " delayed" : "");
        } else if (call == 6) {
          if (below(2) && loop.overflow(model, 0)) text += fmt::format("; overflow of {}", model);
        } else if (call == 7) {
          loop.clip_value(model, limit);
          text += fmt::format("; clip value {} {}", model, limit);
        } else if (call == 8) {
          loop.clip_norm(model, limit);
          text += fmt::format("; clip norm {} {}", model, limit);
        } else if (call == 9) {
          loop.zero_grad(model);
          text += fmt::format("; zero_grad {}", model);
        } else {
          loop.step(model);
          text += fmt::format("; step {}", model);
        }
        const std::string wrong = loop.compare();
        if (wrong.empty()) continue;
        FAIL_CHECK(text << ": " << wrong);
        break;
      }
    }
}

TEST_CASE("a step's report is not changed by another optimizer's overflow") {
  Booster booster({.mixed_precision = "fp16"});
  const std::array modules = {std::make_shared<Weight>(ones({1})),
                              std::make_shared<Weight>(ones({1}))};
  auto [nets, opts] = booster.boost({Model(modules[0]), Model(modules[1])},
                                    {SGD(Model(modules[0]).parameters(), {.lr = lr}),
                                     SGD(Model(modules[1]).parameters(), {.lr = lr})});
  booster.backward(sum(nets[0](ones({1}))), opts[0]);
  opts[0].step();
  booster.backward(sum(nets[1](full({1}, INFINITY))), opts[1]);
  const StepReport again = opts[0].step();  // with the earlier gradients
  CHECK(opts[1].step().skipped());
  CHECK_FALSE(again.skipped());
}

TEST_CASE("a step that is repeated behind one that moved the scale tells the true norm") {
  Booster booster({.mixed_precision = FP16TorchMixedPrecision({.growth_interval = 1})});
  auto module = std::make_shared<Weight>(ones({1}));
  auto [net, opt] = booster.boost(module, SGD(Model(module).parameters(), {.lr = lr}));
  booster.backward(sum(net(full({1}, 3))), opt);
  CHECK(opt.step().grad_norm() == 3);
  CHECK(opt.step().grad_norm() == 3);
}

TEST_CASE("fp8: an overflow skips the step of every optimizer that the loss reached") {
  struct NoBias : Module {
    NoBias() : Module("NoBias") {}
    Tensor forward(const Tensor& x) override { return linear(x); }
    Linear& linear = add<Linear>("linear", 16, 16, {.bias = false});
  };
  Booster booster({.mixed_precision = FP8MixedPrecision({.scaling = "current"})});
  const std::vector<Model> models = {Model(std::make_shared<NoBias>()),
                                     Model(std::make_shared<NoBias>())};
  auto [nets, opts] = booster.boost(
      models, {SGD(models[0].parameters(), {.lr = lr}), SGD(models[1].parameters(), {.lr = lr})});
  const Tensor x = ones({16, 16});
  booster.backward(sum(cast(nets[0](x) + nets[1](x), DType::f32)) * INFINITY, opts[1]);
  CHECK(opts[0].step().skipped());
  CHECK(opts[1].step().skipped());
}
