// A group that joins an optimizer at any moment of a training. Partitioned over ranks it trains as
// in one process, in every strategy; in one process, as with a plain optimizer.
#include "booster/training/session.h"
#include "tests/error_of.h"
#include "tests/plugins/spread_runs.h"
#include "tests/plugins/trained.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>

using namespace booster;
using namespace booster::testing;

namespace {

enum class JoinMoment : uint8_t {
  before_boost,
  after_boost,
  between_steps,
  between_losses,  // while gradients accumulate
  before_clip,
  after_clip,
};
constexpr int join_moments = 6, join_steps = 6, joined_at = 2, join_saved_at = 4;

// The drawn properties of a training.
struct JoinDraw {
  std::string rule;
  JoinMoment moment = JoinMoment::before_boost;
  bool is_frozen = false;  // until the group is added
  bool is_local = false;   // the first of two losses is not exchanged

  std::string text() const {
    return fmt::format("{}, moment {}{}{}", rule, static_cast<int>(moment),
                       is_frozen ? ", frozen" : "", is_local ? ", local" : "");
  }
};

JoinDraw drawn_join(std::mt19937& generator) {
  const auto below = [&](uint32_t n) { return generator() % n; };
  const char* rules[] = {"sgd", "adamw", "lamb"};
  return {rules[below(3)], static_cast<JoinMoment>(below(join_moments)), below(2) == 0,
          below(2) == 0};
}

bool is_late(const std::string& name) { return name.starts_with("3."); }

Parameters join_part(const Model& model, bool late) {
  Parameters some = model.parameters();
  std::erase_if(some, [&](const NamedTensor& one) { return is_late(one.name) != late; });
  return some;
}

Optimizer join_optimizer(const std::string& rule, const Parameters& parameters) {
  constexpr double eps = 1e-3, decay = 0.01;
  if (rule == "sgd") return SGD(parameters, {.lr = 0.2, .momentum = 0.9});
  if (rule == "lamb") return LAMB(parameters, {.lr = 0.01, .eps = eps, .weight_decay = decay});
  return AdamW(parameters, {.lr = 0.01, .eps = eps, .weight_decay = decay});
}

Tensor join_rows(int seed) {
  Generator generator(static_cast<uint64_t>(seed));
  return uniform({batch, features}, -1, 1, {}, generator);
}

class JoinTraining {
 public:
  JoinTraining(const StrategyLevel& strategy, const Spread& spread, const JoinDraw& draw)
      : spread_(spread),
        draw_(draw),
        booster_({.plugin = spread.plugin, .mixed_precision = strategy.make}),
        model_(made()),
        optimizer_(join_optimizer(draw.rule, join_part(model_, false))),
        boosted_(boost()) {
    add_if(JoinMoment::after_boost);
    for (const auto& [name, tensor] : held()) result_.start.push_back({name, tensor.clone()});
  }

  const Trained& run(int first, int last) {
    for (int i = first; i < last; ++i) step(i);
    result_.state = held();
    return result_;
  }
  const Plugin& plugin() const { return *boosted_.model.session().plugin; }
  const Optimizer& optimizer() const { return optimizer_; }
  void add() {
    if (std::exchange(has_added_, true)) return;
    for (const auto& [name, tensor] : join_part(model_, true)) Tensor(tensor).requires_grad_();
    const double lr = draw_.rule == "sgd" ? 0.1 : 0.005;
    optimizer_.add_group({join_part(model_, true), {{"lr", lr}}});
  }
  void save(const std::string& folder) { save_training(folder, boosted_, {.step = join_saved_at}); }
  void resume(const std::string& folder) {
    check(resume_training(folder, boosted_, [](const std::string&) {}).has_value(), "no training");
  }

 private:
  Model made() {
    manual_seed(3 + static_cast<uint64_t>(booster_.plugin().group().rank()));
    Model model = spread_.model();
    if (draw_.is_frozen)
      for (const auto& [name, tensor] : join_part(model, true))
        Tensor(tensor).requires_grad_(false);
    return model;
  }

  Boosted boost() {
    add_if(JoinMoment::before_boost);
    const Criterion loss("half the mean of squares",
                         [](const Tensor& y, const Tensor& t) { return mse_loss(y, t) * 0.5; });
    const TensorDataset data(ones({batch, 1}), zeros({batch}, {.dtype = DType::i64}));
    return booster_.boost(model_, optimizer_, loss,
                          booster_.prepare_dataloader(data, {.batch_size = 1}),
                          ConstantLR(optimizer_));
  }

  void add_if(JoinMoment moment) {
    if (moment == draw_.moment) add();
  }

  Tensor share(const Tensor& x) const {
    const int64_t size = batch / spread_.shares;
    return untracked::narrow(x, 0, spread_.share * size, size).clone();
  }

  void backward(int seed) {
    auto& [model, optimizer, loss_fn, loader, scheduler] = boosted_;
    struct Batch {
      Tensor input, target;
    } const only = {share(join_rows(seed)), share(join_rows(seed + 1))};
    const Batch* at = &only;
    Tensor loss;
    if (spread_.by_pipeline) {
      loss = booster_.execute_pipeline(at, model, loss_fn, optimizer);
    } else {
      loss = loss_fn(model(only.input), only.target);
      booster_.backward(loss, optimizer);
    }
    std::vector<double> mean = {loss.item()};
    plugin().group().all_reduce(mean, CollectiveOp::mean);
    tell(mean[0]);
  }

  void tell(double number) {
    result_.told.push_back(number);
    result_.is_exact.push_back(false);
  }

  void step(int i) {
    auto& optimizer = boosted_.optimizer;
    const bool adds = i == joined_at;
    if (adds) add_if(JoinMoment::between_steps);
    optimizer.zero_grad();
    {
      std::unique_ptr<NoSyncGuard> local;
      if (draw_.is_local) local.reset(new NoSyncGuard(booster_.no_sync(boosted_.model, optimizer)));
      backward(10 * i);
    }
    if (adds) add_if(JoinMoment::between_losses);
    backward(10 * i + 5);
    if (adds) add_if(JoinMoment::before_clip);
    tell(optimizer.clip_grad_by_norm(0.05));
    if (adds) add_if(JoinMoment::after_clip);
    optimizer.step();
  }

  StateDict held() const {
    const WholeParameters whole(boosted_.model);
    StateDict state;
    for (const auto& [name, tensor] : model_.state_dict()) state.push_back({name, tensor.clone()});
    for (const auto& [name, tensor] : optimizer_.state_dict().tensors)
      state.push_back({name, tensor});
    return state;
  }

  Spread spread_;
  JoinDraw draw_;
  bool has_added_ = false;
  Booster booster_;
  Model model_;
  Optimizer optimizer_;
  Boosted boosted_;
  Trained result_;
};

Spread spread_over(const Group& world, const std::string& name, Choice<Plugin> plugin) {
  return {.name = name,
          .plugin = std::move(plugin),
          .model = network,
          .shares = world.size(),
          .share = world.rank()};
}

Spread not_spread() { return {.name = "alone", .model = network}; }

Spread stages_of(const Group& world, int64_t zero_stage) {
  const PluginMaker plugin = HybridParallelPlugin({.pp_size = 2, .zero_stage = zero_stage}, world);
  Spread spread = spread_over(world, fmt::format("stages, zero {}", zero_stage), plugin);
  spread.shares = world.size() / 2;
  spread.share = plugin()->mesh().place("data");
  spread.by_pipeline = true;
  return spread;
}

std::vector<Spread> join_spreads(const Group& world) {
  if (world.size() == 4) return {stages_of(world, 0), stages_of(world, 1)};
  return {
      spread_over(world, "torch_ddp", TorchDDPPlugin({.bucket_cap_mb = 0.01}, world)),
      spread_over(world, "zero 1", LowLevelZeroPlugin({.stage = 1}, world)),
      spread_over(world, "zero 2, late", LowLevelZeroPlugin({.overlap_allgather = true}, world)),
      spread_over(world, "fsdp", FsdpPlugin({}, world)),
      spread_over(world, "fsdp, wrapped", FsdpPlugin({.wrap = {"3"}}, world)),
      spread_over(world, "hybrid, zero 0", HybridParallelPlugin({.zero_stage = 0}, world)),
      spread_over(world, "hybrid, zero 2", HybridParallelPlugin({.zero_stage = 2}, world)),
      spread_over(world, "hybrid, zero 3", HybridParallelPlugin({.zero_stage = 3}, world)),
  };
}

std::string join_difference(const StrategyLevel& strategy, const Spread& spread,
                            const JoinDraw& draw) {
  JoinTraining one(strategy, not_spread(), draw), here(strategy, spread, draw);
  const Trained want = one.run(0, join_steps), got = here.run(0, join_steps);
  StateDict whole = got.state;
  here.plugin().join(whole);
  double worst = 0;
  const double tolerance = tolerance_of(strategy);
  std::string text = compare_told(got, want, tolerance, worst);
  if (here.plugin().group().rank() == 0)
    text += compare(whole, want, want.state, tolerance, 2, worst);
  return text;
}

// Every strategy with every plugin, each at a drawn moment.
void add_in_all() {
  const Group world = launch_from_env().group();
  std::mt19937 generator(39 + static_cast<uint32_t>(world.size()));
  for (const Spread& spread : join_spreads(world))
    for (const StrategyLevel& strategy : strategy_levels()) {
      const JoinDraw draw = drawn_join(generator);
      const std::string what = fmt::format("{}, {}: {}", spread.name, strategy.name, draw.text());
      CAPTURE(what);
      CHECK(join_difference(strategy, spread, draw) == "");
    }
}

// Saves with the group, or before it joins.
void resume_with_group() {
  const Group world = launch_from_env().group();
  std::mt19937 generator(7);
  for (const Spread& spread : join_spreads(world))
    for (size_t i = 0; i < strategy_levels().size(); i += 3) {
      const StrategyLevel& strategy = strategy_levels()[i];
      const JoinDraw draw = drawn_join(generator);
      const std::string what = fmt::format("{}, {}: {}", spread.name, strategy.name, draw.text());
      CAPTURE(what);
      const std::string folder = test_folder() + "/" + what;
      JoinTraining first(strategy, spread, draw), second(strategy, spread, draw);
      first.run(0, join_saved_at);
      first.save(folder);
      second.add();
      second.resume(folder);
      CHECK(different_bits(held_here(second.run(join_saved_at, join_steps).state),
                           held_here(first.run(join_saved_at, join_steps).state)) == "");
    }
}

}  // namespace

TEST_CASE("rank: late groups" * doctest::skip()) { add_in_all(); }
TEST_CASE("a group that joins at any moment trains as in one process, in every strategy") {
  run_ranks("rank: late groups", 2);
  run_ranks("rank: late groups", 3);
  run_ranks("rank: late groups", 4);
}

TEST_CASE("rank: resumed late groups" * doctest::skip()) { resume_with_group(); }
TEST_CASE("a training resumed with a group that joined late has the bits of one never stopped") {
  run_ranks("rank: resumed late groups", 2);
}

TEST_CASE("a group that joins a boosted optimizer trains as in a plain one") {
  std::mt19937 generator(11);
  const StrategyLevel& fp32 = strategy_levels().front();
  for (int round = 0; round < 12; ++round) {
    const JoinDraw draw = drawn_join(generator);
    CAPTURE(draw.text());
    manual_seed(3);
    const Model model = network();
    const auto freeze = [&](bool frozen) {
      for (const auto& [name, tensor] : join_part(model, true))
        Tensor(tensor).requires_grad_(!frozen);
    };
    freeze(draw.is_frozen);
    Optimizer optimizer = join_optimizer(draw.rule, join_part(model, false));
    const auto add_if = [&](bool now) {
      if (!now) return;
      freeze(false);
      optimizer.add_group({join_part(model, true), {{"lr", draw.rule == "sgd" ? 0.1 : 0.005}}});
    };
    const auto backward_of = [&](int seed) {
      backward(mse_loss(model(join_rows(seed)), join_rows(seed + 1)) * 0.5);
    };
    add_if(draw.moment <= JoinMoment::after_boost);
    for (int i = 0; i < join_steps; ++i) {
      const auto at = [&](JoinMoment moment) { return i == joined_at && draw.moment == moment; };
      add_if(at(JoinMoment::between_steps));
      optimizer.zero_grad();
      backward_of(10 * i);
      add_if(at(JoinMoment::between_losses));
      backward_of(10 * i + 5);
      add_if(at(JoinMoment::before_clip));
      clip_grad_norm_(optimizer.parameters(), 0.05);
      add_if(at(JoinMoment::after_clip));
      optimizer.step();
    }
    JoinTraining boosted(fp32, not_spread(), draw);
    const StateDict got = boosted.run(0, join_steps).state;
    for (const auto& [name, tensor] : model.state_dict())
      for (int64_t j = 0; j < tensor.numel(); ++j)
        CHECK(find(got, name)->to_vector<double>()[static_cast<size_t>(j)] ==
              doctest::Approx(tensor.to_vector<double>()[static_cast<size_t>(j)]).epsilon(1e-5));
  }
}

TEST_CASE("a late group's gradients are kept, and shown unscaled after the step") {
  Booster booster({.mixed_precision = FP16TorchMixedPrecision({.init_scale = 256})});
  const Model model = network();
  auto [net, opt] = booster.boost(model, SGD(join_part(model, false), {.lr = 0.1}));
  const Tensor temperature = ones({}).requires_grad_();
  opt.unwrap().add_group({join_part(model, true)});
  opt.unwrap().add_group({{{"temperature", temperature}}});
  booster.backward(sum(net(join_rows(1))) * temperature, opt);
  CHECK_THROWS_WITH_AS(clip_grad_norm_({{"temperature", temperature}}, 1),
                       doctest::Contains("boosted training"), Error);
  const double scaled = temperature.grad().item();
  opt.step();
  CHECK(temperature.grad().item() == doctest::Approx(scaled / 256));
}

TEST_CASE("bf16 weights that join late are rounded as the first ones are") {
  Booster booster({.mixed_precision = BF16MixedPrecision(
                       {.style = "cast", .master_weights = false, .update = "kahan"})});
  const Model model = network();
  auto [net, opt] = booster.boost(model, SGD(join_part(model, false), {.lr = 0.1}));
  opt.unwrap().add_group({join_part(model, true)});
  CHECK(opt.unwrap().state_dict().tensors.contains("3.weight.compensation"));
}

TEST_CASE("a group of another training's parameters, or of another optimizer's, does not join") {
  Booster booster;
  const Model first = network(), second = network();
  auto one = booster.boost(first, SGD(join_part(first, false), {.lr = 0.1}));
  auto other = booster.boost(second, SGD(second.parameters(), {.lr = 0.1}));
  Parameters strange = {{"strange", second.parameters()[0].tensor}};
  CHECK(contains(error_of([&] { one.optimizer.unwrap().add_group({strange}); }),
                 "optimizer.add_group: parameter strange belongs to another boosted training"));
  const Model gan = network();
  auto pair = booster.boost(
      {gan}, {SGD(join_part(gan, false), {.lr = 0.1}), SGD(join_part(gan, true), {.lr = 0.1})});
  CHECK(contains(error_of([&] { pair.optimizers[0].unwrap().add_group({join_part(gan, true)}); }),
                 "two optimizers have parameter 3.weight"));
  CHECK(pair.optimizers[0].unwrap().group_count() == 1);
}

TEST_CASE("rank: unknown to stages" * doctest::skip()) {
  Booster booster({.plugin = HybridParallelPlugin({.pp_size = 2}, launch_from_env().group())});
  const Model model = network();
  auto [net, opt] = booster.boost(model, SGD(join_part(model, false), {.lr = 0.1}));
  const Tensor scale = ones({}).requires_grad_();
  CHECK(contains(error_of([&] {
                   opt.unwrap().add_group({{{"scale", scale}}});
                 }),
                 "pipeline: parameter scale belonged to neither the model nor an optimizer"));
  CHECK(opt.unwrap().group_count() == 1);
}
TEST_CASE("a parameter that no stage of a pipeline knows does not join") {
  run_ranks("rank: unknown to stages", 2);
}

TEST_CASE("rank: strange group" * doctest::skip()) {
  const World world = launch_from_env();
  for (const Choice<Plugin>& plugin : {Choice<Plugin>(TorchDDPPlugin({}, world.group())),
                                       Choice<Plugin>(LowLevelZeroPlugin({}, world.group()))}) {
    Booster booster({.plugin = plugin});
    manual_seed(1);
    const Model model = network();
    auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
    const Tensor scale = full({4}, 1 + world.rank).requires_grad_();  // other values on each rank
    opt.unwrap().add_group({{{"scale", scale}}});
    booster.backward(mean(net(join_rows(world.rank))) * sum(scale), opt);
    CHECK(scale.to_vector<float>() == std::vector<float>(4, 1));
    opt.step();
    std::vector<float> mine = scale.to_vector<float>(), of_rank_0 = mine;
    world.group().broadcast(of_rank_0);
    CHECK(mine == of_rank_0);
  }
}
TEST_CASE("parameters that are no model's and join late start from rank 0's numbers") {
  run_ranks("rank: strange group", 2);
}
