#include "tests/plugins/spread_training.h"

#include "kernels/system/memory.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>

namespace booster::testing {

namespace {

constexpr int steps = 9, saved_at = 5;
constexpr int infinite_loss_at = 0, infinite_gradient_at = 2;

Optimizer optimizer_for(const std::string& rule, const Model& model, double rate) {
  if (rule == "sgd") return SGD(model.parameters(), {.lr = 0.2 * rate, .momentum = 0.9});
  // A large eps: else the smallest gradients, mere rounding, move weights as far as others.
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

// What a training told and left.
struct Trained {
  std::vector<double> told;  // of each step: skipped, loss scale, norm (0: not asked), loss
  std::vector<bool> is_exact;
  StateDict start, state;  // weights, and what the optimizer keeps
  StateDict scales;        // the strategy's own
};

class Training {
 public:
  Training(const StrategyLevel& strategy, const Spread& spread, const std::string& rule)
      : spread_(spread),
        booster_({.plugin = spread.plugin, .mixed_precision = strategy.make}),
        // Only rank 0's numbers count.
        model_(drawn(spread, 3 + booster_.plugin().group().rank())),
        skips_(strategy.skips),
        boosted_(boost(optimizer_for(rule, model_, spread.rate))) {
    break_gradient();
    for (const auto& [name, tensor] : held()) result_.start.push_back({name, tensor.clone()});
  }

  // Steps [first, last).
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

  // One element of one gradient becomes infinite where a step asks for it, on one rank.
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
    const Tensor x = spread_.input(share(numbers(seed))).to(spread_.device),
                 t = spread_.target(share(numbers(seed + 1))).to(spread_.device);
    struct Batch {
      Tensor input, target;
    } const only = {x, t};
    const Batch* at = &only;
    auto& [model, optimizer, loss_fn, loader, scheduler] = boosted_;
    Tensor loss;
    if (spread_.by_pipeline) {
      loss = booster_.execute_pipeline(at, model, loss_fn, optimizer);
    } else {
      loss = loss_fn(model(x), t);
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

  // Two losses in each step. The first is clipped before the second comes, or not exchanged.
  void step(int i) {
    auto& optimizer = boosted_.optimizer;
    if (i != 7) optimizer.zero_grad();  // a step without it goes on from the gradients before
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

const Tensor* find(const StateDict& state, const std::string& name) {
  for (const NamedTensor& held : state)
    if (held.name == name) return &held.tensor;
  return nullptr;
}

// Without what other ranks have.
StateDict held_here(StateDict state) {
  std::erase_if(state, [](const NamedTensor& one) { return one.tensor.numel() == 0; });
  return state;
}

double norm_of(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// A tensor of the wanted state, its start (0 for what an optimizer keeps) and the got one: how far
// they are apart, relative to what training changed. Numbers are rounded besides, in f32 by each of
// some steps: a scale near 1 that hardly changed has few digits of its change.
double distance(const std::vector<double>& got, const std::vector<double>& want,
                const std::vector<double>& start, DType dtype) {
  const double rounding = dtype == DType::f16 ? 0x1p-11 : dtype == DType::bf16 ? 0x1p-8 : 0x1p-22;
  const std::vector<double> zero(want.size());
  const double apart = norm_of(got, want) - rounding * norm_of(want, zero);
  return std::max(apart, 0.0) / (norm_of(want, start) + 1e-12);
}

// A mean of gradients: a sum that cancels, in 16 bits, is further off than the weights it moves.
bool is_moment(const std::string& name) {
  return name.ends_with("exp_avg") || name.ends_with("exp_avg_sq") ||
         name.ends_with("momentum_buffer");
}

// "" or what is not as wanted; `worst` is the largest distance.
std::string compare(const StateDict& got, const Trained& want, const StateDict& wanted,
                    double tolerance, double deeper, double& worst) {
  if (got.size() != wanted.size())
    return fmt::format("{} tensors, want {}", got.size(), wanted.size());
  for (const auto& [name, tensor] : wanted) {
    const Tensor* found = find(got, name);
    if (!found) return name + " is missing";
    if (found->shape() != tensor.shape() || found->dtype() != tensor.dtype())
      return fmt::format("{}: {} {}, want {} {}", name, name_of(found->dtype()), found->shape(),
                         name_of(tensor.dtype()), tensor.shape());
    if (name.ends_with("compensation")) continue;  // the digits that rounding left
    const auto values = tensor.to_vector<double>();
    const Tensor* start = find(want.start, name);
    const bool same = start && start->shape() == tensor.shape();
    const auto from = same ? start->to_vector<double>() : std::vector<double>(values.size());
    const double far = distance(found->to_vector<double>(), values, from, tensor.dtype());
    worst = std::max(worst, far);
    const double most = is_moment(name) ? tolerance * deeper : tolerance;
    if (!(far <= most)) return fmt::format("{} is {} of its change away, want {}", name, far, most);
  }
  return "";
}

std::string compare_told(const Trained& got, const Trained& want, double tolerance, double& worst) {
  for (size_t i = 0; i < want.told.size(); ++i) {
    const double a = got.told[i], b = want.told[i];
    const double far = a == b ? 0 : std::abs(a - b) / std::abs(b);
    worst = std::max(worst, far);
    if (want.is_exact[i] ? a != b : !(far <= tolerance))
      return fmt::format("number {} of step {}: got {}, want {}", i % 6, i / 6, a, b);
  }
  return "";
}

// What all ranks must have the same bits of.
std::string compare_ranks(const Group& world, const Trained& got, bool with_scales) {
  std::vector<double> mine = got.told;
  for (const NamedTensor& scale : with_scales ? got.scales : StateDict{})
    for (const double number : scale.tensor.to_vector<double>()) mine.push_back(number);
  std::vector<double> of_rank_0 = mine;
  world.broadcast(of_rank_0);
  return mine == of_rank_0 ? "" : "ranks tell different things; ";
}

}  // namespace

Model network() {
  return Sequential({Linear(features, hidden), LayerNorm(hidden), GELU(), Linear(hidden, hidden),
                     Tanh(), Linear(hidden, features)});
}

// Of what training changed, relative to its norm.
double tolerance_of(const StrategyLevel& strategy, Digits sent) {
  constexpr double by_digits[] = {1e-5, 3e-3, 2e-2, 0.3};
  return by_digits[static_cast<size_t>(std::max(strategy.computed, sent))];
}

// Trains spread and alone; "" or how they differ.
Distance train(const StrategyLevel& strategy, const Spread& spread, const std::string& rule) {
  Spread one = spread;
  one.plugin = SinglePlugin({.on_every_rank = true});
  one.shares = 1;
  one.share = one.breaking_rank = 0;
  one.by_pipeline = false;
  one.device = {};
  Training alone(strategy, one, rule), here(strategy, spread, rule);
  const Trained want = alone.run(0, steps), got = here.run(0, steps);
  const Group world = here.plugin().group();
  const bool is_exact = strategy.computed == Digits::f32 && spread.sent == Digits::f32;
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

// Trains on from a checkpoint, in fresh objects; "" or what is not the same bits.
std::string resume(const StrategyLevel& strategy, const Spread& spread, const std::string& folder) {
  Training first(strategy, spread, "adamw"), second(strategy, spread, "adamw");
  first.run(0, saved_at);
  first.save(folder);
  second.resume(folder);
  const StateDict want = held_here(first.run(saved_at, steps).state),
                  got = held_here(second.run(saved_at, steps).state);
  if (got.size() != want.size()) return "other tensors";
  for (const auto& [name, tensor] : want) {
    const Tensor* found = find(got, name);
    if (!found || found->to_vector<double>() != tensor.to_vector<double>()) return name;
  }
  return "";
}

namespace {

using SpreadMaker = std::function<Spread(const Group& world)>;
constexpr std::array<const char*, 3> rules = {"sgd", "adamw", "lamb"};
constexpr const char* on_gpus_variable = "SPREAD_ON_GPUS";
// How ranks are connected, where that is not by shared memory alone.
constexpr const char* over_variable = "SPREAD_OVER";

bool is_on_gpus() { return std::getenv(on_gpus_variable) != nullptr; }

// On GPUs each rank has the next one, as far as there are others.
Spread spread_of(const SpreadMaker& make, const World& world) {
  Spread spread = make(world.group());
  if (is_on_gpus()) {
    spread.device = {DeviceType::cuda,
                     static_cast<int8_t>(world.rank % kernels::cuda_device_count())};
    spread.deeper *= 2;  // NCCL rounds sums in 16 bits at every rank
  }
  return spread;
}

void check_rule(const StrategyLevel& strategy, const SpreadMaker& make, const char* rule) {
  const World world = launch_from_env();
  const Spread spread = spread_of(make, world);
  const std::string both = fmt::format("{} {} {}", spread.name, strategy.name, rule);
  INFO(both);
  const Distance far = train(strategy, spread, rule);
  CHECK(far.difference == "");
  const char* file = std::getenv("EQUIVALENCE");
  if (world.rank != 0 || !file) return;
  const char* over = std::getenv(over_variable);
  std::ofstream(file, std::ios::app)
      << fmt::format("| {}{} | {} | {} | {} | {:.1e} | {:.1e} |\n", over ? over : "",
                     (over ? ", " : "") + spread.name, world.size, strategy.name, rule, far.state,
                     far.told);
}

void check_resume(const StrategyLevel& strategy, const SpreadMaker& make) {
  const Spread spread = spread_of(make, launch_from_env());
  const std::string resumed = fmt::format("{} {}, resumed", spread.name, strategy.name);
  INFO(resumed);
  CHECK(resume(strategy, spread, test_folder() + "/" + spread.name + strategy.name) == "");
}

// A strategy of each width. Under mpirun ranks have no folder of their test.
void train_few(const SpreadMaker& spread) {
  for (const StrategyLevel& strategy : strategy_levels()) {
    const std::string name = strategy.name;
    if (name != "fp32" && name != "fp16" && name != "bf16") continue;
    check_rule(strategy, spread, "adamw");
    if (name == "bf16" && std::getenv("TEST_FOLDER")) check_resume(strategy, spread);
  }
}

}  // namespace

void train_all(const SpreadMaker& spread) {
  if (std::getenv(over_variable)) return train_few(spread);
  if (const char* turn = std::getenv(on_gpus_variable))
    return train_in_turn(spread, std::stoul(turn));
  for (const StrategyLevel& strategy : strategy_levels()) {
    for (const char* rule : rules) check_rule(strategy, spread, rule);
    check_resume(strategy, spread);
  }
}

void train_in_turn(const SpreadMaker& spread, size_t turn) {
  if (std::getenv(over_variable)) return train_few(spread);
  const size_t every = is_on_gpus() ? 6 : 2;
  for (const StrategyLevel& strategy : strategy_levels()) {
    ++turn;
    const bool is_first = &strategy == &strategy_levels().front();
    if (turn % every != 0 && !is_first && !std::getenv("EQUIVALENCE")) continue;
    check_rule(strategy, spread, rules[turn / every % rules.size()]);
    if (turn % (2 * every) == 0) check_resume(strategy, spread);
  }
}

void run_ranks_on_gpus(const std::string& name, int size, int gpus) {
  static size_t turn = 0;
  const std::map<std::string, std::string> variables = {
      {on_gpus_variable, std::to_string(turn++)}, {"CUDA_ON_HOST_DEVICES", std::to_string(gpus)}};
  CHECK(failures(Ranks("rank: " + name, size, variables).wait(400)) == "");
}

void run_ranks(const std::string& name, int size) {
  CHECK(failures(Ranks("rank: " + name, size).wait(400)) == "");
}

void run_ranks_over_each(const std::string& name) {
  for (const Connection& connection : connections()) {
    if (connection.name != "gloo" && connection.name != "two machines") continue;
    CAPTURE(connection.name);
    const auto environment = connection.with({{over_variable, connection.name}});
    CHECK(failures(Ranks("rank: " + name, 4, environment).wait(400)) == "");
  }
  ::setenv(over_variable, "MPI", 1);
  CHECK(failures_over_mpi("rank: " + name, 4) == "");
  ::unsetenv(over_variable);
}

}  // namespace booster::testing
