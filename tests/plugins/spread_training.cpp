#include "tests/plugins/spread_training.h"

#include "booster/training/session.h"
#include "tests/plugins/trained.h"

#include <fmt/format.h>

#include <cmath>

namespace booster::testing {

namespace {

constexpr int steps = 9, saved_at = 5;
constexpr int infinite_loss_at = 0, infinite_gradient_at = 2;

Optimizer optimizer_for(const std::string& rule, const Model& model, double rate) {
  if (rule == "sgd") return SGD(model.parameters(), {.lr = 0.2 * rate, .momentum = 0.9});
  // eps is large: otherwise the smallest gradients, mere rounding, would move weights as far as
  // others.
  constexpr double eps = 1e-3, decay = 0.01;
  const double lr = 0.01 * rate;
  if (rule == "lamb")
    return LAMB(model.parameters(), {.lr = lr, .eps = eps, .weight_decay = decay});
  return AdamW(model.parameters(), {.lr = lr, .eps = eps, .weight_decay = decay});
}

Model drawn(const Spread& spread, int seed) {
  manual_seed(static_cast<uint64_t>(seed));
  Model model = spread.model();
  model->to(spread.device);
  return model;
}

Tensor numbers(int seed) {
  Generator generator(static_cast<uint64_t>(seed));
  return uniform({batch, features}, -1, 1, {}, generator);
}

class Training {
 public:
  Training(const StrategyLevel& strategy, const Spread& spread, const std::string& rule)
      : spread_(spread),
        booster_({.plugin = spread.plugin, .mixed_precision = strategy.make}),
        // Only rank 0's values count.
        model_(drawn(spread, 3 + booster_.plugin().group().rank())),
        skips_(strategy.skips),
        boosted_(boost(optimizer_for(rule, model_, spread.rate))) {
    break_gradient();
    for (const auto& [name, tensor] : held()) result_.start.push_back({name, tensor.clone()});
  }

  // Runs steps [first, last).
  const Trained& run(int first, int last) {
    for (int i = first; i < last; ++i) step(i);
    result_.state = held();
    result_.scales.clear();
    for (const auto& [name, tensor] : boosted_.model.session().precision->state_tensors())
      result_.scales.push_back({name, tensor.clone()});
    return result_;
  }
  const Plugin& plugin() const { return *boosted_.model.session().plugin; }
  void save(const std::string& folder) { save_training(folder, boosted_, {.step = saved_at}); }
  void resume(const std::string& folder) {
    check(resume_training(folder, boosted_, [](const std::string&) {}).has_value(),
          "toys: nothing to resume");
  }

 private:
  Boosted boost(const Optimizer& optimizer) {
    const Criterion loss("mean of squares", [this](const Tensor& y, const Tensor& t) {
      return mse_loss(y, t) * (loss_breaks_ ? INFINITY : 0.5);
    });
    const TensorDataset data(ones({batch, 1}), zeros({batch}, {.dtype = DType::i64}));
    return booster_.boost(model_, optimizer, loss,
                          booster_.prepare_dataloader(data, {.batch_size = 1}),
                          ConstantLR(optimizer));
  }

  // Makes one element of one gradient infinite on one rank in the steps that ask for it.
  void break_gradient() {
    const Group group = booster_.plugin().group();
    const int breaking = spread_.breaking_rank < 0 ? group.size() - 1 : spread_.breaking_rank;
    for (const auto& [name, tensor] : model_.parameters())
      if (group.rank() == breaking && name == spread_.broken)
        register_grad_hook(tensor, [this](const Tensor& g) {
          if (!gradient_breaks_) return Tensor();
          const Tensor broken = g.clone();
          untracked::narrow(untracked::reshape(broken, {-1}), 0, g.numel() - 1, 1).fill_(INFINITY);
          return broken;
        });
  }

  Tensor share(const Tensor& x) const {
    const int64_t size = batch / spread_.shares;
    return untracked::narrow(x, 0, spread_.share * size, size).clone();
  }

  double backward(int seed) {
    const auto to_model = [&](const Tensor& x) { return x.to(spread_.device); };
    struct Batch {
      Tensors input, target;
    } const only = {spread_.input(share(numbers(seed))).map(to_model),
                    spread_.target(share(numbers(seed + 1))).map(to_model)};
    const Batch* at = &only;
    auto& [model, optimizer, loss_fn, loader, scheduler] = boosted_;
    Tensor loss;
    if (spread_.by_pipeline) {
      loss = booster_.execute_pipeline(at, model, loss_fn, optimizer);
    } else {
      loss = loss_fn(model(only.input), only.target);
      booster_.backward(loss, optimizer);
    }
    std::vector<double> mean = {loss.item()};
    plugin().group().all_reduce(mean, CollectiveOp::mean);
    return mean[0];
  }

  void tell(double number, bool is_exact) {
    result_.told.push_back(number);
    result_.is_exact.push_back(is_exact);
  }

  // Runs two losses. The first is clipped before the second one, or not communicated.
  void step(int i) {
    auto& optimizer = boosted_.optimizer;
    if (i != 7) optimizer.zero_grad();  // without it the step adds to the earlier gradients
    loss_breaks_ = skips_ && i == infinite_loss_at && spread_.share == spread_.shares - 1;
    gradient_breaks_ = skips_ && i == infinite_gradient_at;
    double norm = 0;
    {
      std::unique_ptr<NoSyncGuard> local;
      if (i % 4 == 1) local.reset(new NoSyncGuard(booster_.no_sync(boosted_.model, optimizer)));
      const double loss = backward(10 * i);
      tell(std::isfinite(loss) ? loss : 0, false);
    }
    loss_breaks_ = false;
    if (i == 4) optimizer.clip_grad_by_value(0.001);
    if (i == 5) norm = optimizer.clip_grad_by_norm(0.02);
    tell(norm, false);
    backward(10 * i + 5);
    if (i % 2 == 1) norm = optimizer.clip_grad_by_norm(0.05);
    const StepReport report = optimizer.step();
    tell(norm, false);
    const double found = report.grad_norm();
    tell(std::isfinite(found) ? found : 0, false);
    tell(report.skipped(), true);
    tell(report.loss_scale(), true);
  }

  StateDict held() const {
    const WholeParameters whole(boosted_.model);
    StateDict state;
    for (const auto& [name, tensor] : model_.state_dict()) state.push_back({name, tensor.clone()});
    for (const auto& [name, tensor] : boosted_.optimizer.unwrap().state_dict().tensors)
      state.push_back({name, tensor});
    return state;
  }

  Spread spread_;
  Booster booster_;
  Model model_;
  bool skips_, loss_breaks_ = false, gradient_breaks_ = false;
  Boosted boosted_;
  Trained result_;
};

}  // namespace

Model network() {
  return Sequential({Linear(features, hidden), LayerNorm(hidden), GELU(), Linear(hidden, hidden),
                     Tanh(), Linear(hidden, features)});
}

// Relative to the norm of what training changed.
double tolerance_of(const StrategyLevel& strategy, Digits sent) {
  constexpr double by_digits[] = {1e-12, 1e-5, 3e-3, 2e-2, 0.3};
  return by_digits[static_cast<size_t>(std::max(strategy.computed, sent))];
}

// Trains distributed and alone; returns how they differ.
Distance train(const StrategyLevel& strategy, const Spread& spread, const std::string& rule) {
  Spread one = spread;
  one.plugin = SinglePlugin({.on_every_rank = true});
  one.shares = 1;
  one.share = one.breaking_rank = 0;
  one.by_pipeline = false;
  one.device = {};
  Training here(strategy, spread, rule);
  const Group world = here.plugin().group();
  Trained want;
  if (world.rank() == 0) want = Training(strategy, one, rule).run(0, steps);
  want = of_rank_0(world, want);
  manual_seed(4);  // the same on all ranks again
  const Trained got = here.run(0, steps);
  const bool is_exact = std::max(strategy.computed, spread.sent) <= Digits::f32;
  const double deeper = is_exact ? 1 : spread.deeper;
  const double tolerance = deeper * tolerance_of(strategy, spread.sent);
  Distance far;
  far.difference = compare_told(got, want, tolerance / 5, far.told);
  far.difference += compare_ranks(world, got, !spread.by_pipeline);
  StateDict whole = got.state, part = want.state;
  here.plugin().join(whole);
  here.plugin().split(part);
  if (world.rank() == 0)
    far.difference += compare(whole, want, want.state, tolerance, deeper, far.state);
  // A part may have changed less than the whole.
  far.difference +=
      compare(held_here(got.state), want, held_here(part), 2 * tolerance, deeper, far.part);
  return far;
}

// Resumes from a checkpoint in fresh objects; returns "" or what is not bitwise equal.
std::string resume(const StrategyLevel& strategy, const Spread& spread, const std::string& folder) {
  Training first(strategy, spread, "adamw"), second(strategy, spread, "adamw");
  first.run(0, saved_at);
  first.save(folder);
  second.resume(folder);
  const StateDict want = held_here(first.run(saved_at, steps).state),
                  got = held_here(second.run(saved_at, steps).state);
  return different_bits(got, want);
}

std::string resume_elsewhere(const StrategyLevel& strategy, const Spread& spread,
                             const Spread& other, const std::string& folder) {
  Training first(strategy, spread, "adamw"), second(strategy, other, "adamw");
  first.run(0, saved_at);
  first.save(folder);
  second.resume(folder);
  const auto state = [](Training& training) { return training.run(saved_at, saved_at).state; };
  if (const auto name = different_bits(state(second), state(first)); !name.empty())
    return name + " was not read as it was written";
  const Trained want = first.run(saved_at, steps), got = second.run(saved_at, steps);
  double worst = 0;
  return compare(got.state, want, want.state, tolerance_of(strategy), 1, worst);
}

}  // namespace booster::testing
