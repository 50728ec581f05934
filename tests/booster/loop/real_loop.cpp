#include "tests/booster/loop/real_loop.h"

#include "booster/booster.h"
#include "booster/training/session.h"
#include "core/tensor/absence.h"
#include "tests/booster/loop/plain_model.h"
#include "tests/strategy_levels.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>

namespace booster::loop {

namespace {

using testing::StrategyLevel;

// Returns the tolerance of weights, relative to 1 + |w|: the losses are chosen so that only stored
// values round.
double tolerance_of(const StrategyLevel& strategy, const std::string& sent_as) {
  constexpr double by_digits[] = {1e-13, 2e-5, 1e-2, 6e-2};
  const testing::Digits sent = sent_as == "bf16"   ? testing::Digits::bf16
                               : sent_as == "fp16" ? testing::Digits::f16
                                                   : testing::Digits::f64;
  return by_digits[static_cast<size_t>(std::max(strategy.kept, sent))];
}

const StrategyLevel& strategy_named(const std::string& name) {
  for (const StrategyLevel& row : testing::strategy_levels())
    if (row.name == name) return row;
  fail("loop: no such strategy; got {}", name);
}

struct Layer : Module {
  Layer() : Module("Layer") {}
  Tensor forward(const Tensor& x) override { return twice ? once(x) + once(x) : once(x); }
  Tensor once(const Tensor& x) {
    if (!recomputes) return linear(x);
    return checkpoint([this](const std::vector<Tensor>& in) { return linear(in[0]); }, {x});
  }
  Linear& linear = add<Linear>("linear", size, size);
  bool recomputes = false, twice = false;
};

std::shared_ptr<Layer> layer(int model, const World& world) {
  auto made = std::make_shared<Layer>();
  const NoGradGuard no_grad;
  const Numbers numbers = first_numbers(model);
  const std::vector<float> values(numbers.begin(), numbers.end());
  const auto end_of_weight = values.begin() + size * size;
  Tensor weight = made->linear.weight, bias = made->linear.bias;
  weight.copy_(from_vector(std::vector<float>(values.begin(), end_of_weight), {size, size}));
  bias.copy_(from_vector(std::vector<float>(end_of_weight, values.end()), {size}));
  if (world.rank > 0) weight.fill_(world.rank);  // rank 0's values count
  return made;
}

Tensor signs(double factor) {
  std::vector<float> values;
  for (int i = 0; i < size; ++i) values.push_back(static_cast<float>(factor * sign(i)));
  return from_vector(values, {1, size});
}

struct Batch {
  Tensor input, target;
};

// Checks that the unboosted handle refuses to use gradients, at any time.
void check_refused(Optimizer unboosted) {
  const std::function<void()> calls[] = {[&] { unboosted.step(); }, [&] { unboosted.zero_grad(); },
                                         [&] { unboosted.clip_grad_by_norm(1); },
                                         [&] { unboosted.clip_grad_by_value(1); }};
  for (const auto& call : calls) {
    bool refused = false;
    try {
      call();
    } catch (const Error&) {
      refused = true;
    }
    check(refused, "loop: an unboosted handle was not refused");
  }
}

class RealLoop {
 public:
  RealLoop(const Setup& setup, const World& world, const std::string& folder)
      : setup_(setup),
        world_(world),
        folder_(folder),
        strategy_(strategy_named(setup.strategy)),
        booster_(options()) {
    start();
  }

  // Returns true if a step was skipped.
  bool run(const Action& action, int index, const PlainLoop& plain) {
    BoostedOptimizer& optimizer = optimizers_[static_cast<size_t>(action.model)];
    check_refused(optimizer.unwrap());
    switch (action.call) {
      case Call::backward: backward(action, index); break;
      case Call::clip_value: optimizer.clip_grad_by_value(action.limit); break;
      case Call::clip_norm: optimizer.clip_grad_by_norm(action.limit); break;
      case Call::halve:
        if (!plain.optimizer(action.model).is_shown) break;
        for (const auto& [name, tensor] : optimizer.unwrap().parameters())
          if (Tensor grad = tensor.grad(); grad.defined()) grad.mul_(0.5);
        break;
      case Call::zero_grad: optimizer.zero_grad(); break;
      case Call::step: return optimizer.step().skipped();
      case Call::evaluate: break;  // done by compare()
      case Call::save: save_training(folder_, *whole_, {.step = ++saves_}); break;
      case Call::resume:
        if (saves_ == 0) break;
        if (action.fresh) start();
        check(resume_training(folder_, *whole_, [](const std::string&) {}).has_value(),
              "loop: nothing to resume");
        break;
    }
    return false;
  }

  // Returns "" or how the values differ from `plain`.
  std::string compare(const PlainLoop& plain, const Action& action, int index) {
    for (int model = 0; model < (setup_.two_models ? 2 : 1); ++model) {
      const Numbers got = values(model), &want = plain.optimizer(model).value;
      for (size_t i = 0; i < want.size(); ++i) {
        const bool both_nan = std::isnan(got[i]) && std::isnan(want[i]);
        const double allowed = tolerance_of(strategy_, setup_.sent_as) * (1 + std::abs(want[i]));
        if (got[i] != want[i] && !both_nan && !(std::abs(got[i] - want[i]) <= allowed))
          return fmt::format("weight {} of {}: got {}, want {}", i, "AB"[model], got[i], want[i]);
      }
    }
    for (int model = 0; model < (setup_.two_models ? 2 : 1); ++model)
      if ((index + world_.rank + model) % 2 == 0)  // one rank may read alone: no effect
        if (std::string far = compare_gradients(plain, model); !far.empty()) return far;
    if (setup_.strategy == "fp16" && scale() != plain.loss_scale())
      return fmt::format("loss scale: got {}, want {}", scale(), plain.loss_scale());
    return action.call == Call::evaluate ? compare_output(plain, action.model, index) : "";
  }

 private:
  BoosterOptions options() const {
    if (world_.size == 1) return {.mixed_precision = strategy_.make};
    if (setup_.zero_stage == 3)
      return {.plugin = FsdpPlugin({.prefetch = setup_.views ? 1 : 0}),
              .mixed_precision = strategy_.make};
    if (setup_.zero_stage)
      return {.plugin = LowLevelZeroPlugin({.stage = setup_.zero_stage,
                                            .reduce_bucket_size_in_m = 1e-5,
                                            .overlap_allgather = setup_.late}),
              .mixed_precision = strategy_.make};
    return {.plugin = TorchDDPPlugin({.bucket_cap_mb = 1e-4,
                                      .find_unused_parameters = setup_.finds_unused,
                                      .gradient_as_bucket_view = setup_.views,
                                      .static_graph = setup_.is_static,
                                      .comm_dtype = setup_.sent_as}),
            .mixed_precision = strategy_.make};
  }

  // Recreates everything, as after a restart.
  void start() {
    whole_.reset();
    models_.clear();
    optimizers_.clear();
    layers_.clear();
    const SGDOptions sgd = {.lr = learning_rate, .momentum = momentum};
    for (int model = 0; model < (setup_.two_models ? 2 : 1); ++model)
      layers_.push_back(layer(model, world_));
    const Optimizer first = SGD(Model(layers_[0]).parameters(), sgd);
    if (setup_.two_models) {
      const Optimizer second = SGD(Model(layers_[1]).parameters(), sgd);
      BoostedGroup group = booster_.boost({Model(layers_[0]), Model(layers_[1])}, {first, second});
      models_ = group.models;
      optimizers_ = group.optimizers;
      return;
    }
    const TensorDataset data(ones({4, size}), zeros({4}, {.dtype = DType::i64}));
    whole_ =
        booster_.boost(Model(layers_[0]), first, MSELoss(),
                       booster_.prepare_dataloader(data, {.batch_size = 1}), ConstantLR(first));
    models_ = {whole_->model};
    optimizers_ = {whole_->optimizer};
  }

  Tensor input(int index) const {
    std::vector<float> values;
    for (int j = 0; j < size; ++j)
      values.push_back(static_cast<float>(magnitude(setup_, world_.rank, index) * sign(j)));
    return from_vector(values, {1, size});
  }

  void backward(const Action& action, int index) {
    std::unique_ptr<NoSyncGuard> local;
    if (action.local) local.reset(new NoSyncGuard(booster_.no_sync(models_[0], optimizers_[0])));
    for (const auto& layer : layers_) {
      layer->recomputes = action.recomputes;
      layer->twice = action.twice;
    }
    const Tensor target = signs(action.factor);
    const double infinite = action.overflow == world_.rank ? INFINITY : 1;
    const Criterion loss_fn("signs", [&](const Tensor& y, const Tensor& t) {
      return sum(cast(y, DType::f32) * t) * infinite;
    });
    if (action.pipeline) {
      const Batch batch = {input(index), target};
      const Batch* at = &batch;
      booster_.execute_pipeline(at, models_[0], loss_fn, optimizers_[0]);
      return;
    }
    Tensor loss;
    std::vector<BoostedOptimizer> named;
    for (size_t model = 0; model < models_.size(); ++model) {
      if (action.names >> model & 1) named.push_back(optimizers_[model]);
      if ((action.reaches >> model & 1) == 0) continue;
      const Tensor one = loss_fn(models_[model](input(index)), target);
      loss = loss.defined() ? loss + one : one;
    }
    booster_.backward(loss, named);
  }

  Numbers values(int model) const {
    Numbers all;
    const Optimizer optimizer = optimizers_[static_cast<size_t>(model)].unwrap();
    StateDict updated;  // parameters as steps update them
    for (const auto& [name, tensor] : optimizer.parameters()) {
      const Tensor master = optimizer.master(name);
      if (master.defined())
        updated.push_back({name + ".master", master});
      else
        updated.push_back({name, tensor});
    }
    const Plugin& plugin = *models_[0].session().plugin;
    plugin.join(updated);
    const Parameters parameters = optimizer.parameters();
    for (size_t i = 0; i < updated.size(); ++i) {
      Tensor tensor = updated[i].tensor;
      const bool in_parts = updated[i].name != parameters[i].name ||  // a master
                            kept_part(parameters[i].tensor).defined();
      if (plugin.layout().zero_stage > 0 && in_parts) {  // whole on rank 0 only
        if (plugin.group().rank() > 0)
          tensor = empty(parameters[i].tensor.shape(), {.dtype = tensor.dtype()});
        plugin.group().broadcast(tensor);
      }
      const auto values = tensor.to_vector<double>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  // Compares the gradients that a program sees after a clip or step.
  std::string compare_gradients(const PlainLoop& plain, int model) const {
    const PlainOptimizer& want = plain.optimizer(model);
    if (!want.is_shown || !want.gradient || want.overflowed) return "";
    const Optimizer optimizer = optimizers_[static_cast<size_t>(model)].unwrap();
    const auto parts = optimizer.state_dict().parts;
    const double tolerance = tolerance_of(strategy_, setup_.sent_as);
    size_t begin = 0;  // of the parameter, among all elements
    for (const auto& [name, tensor] : optimizer.parameters()) {
      const Tensor grad = tensor.grad();
      if (!grad.defined()) return name + " has no gradient";
      const auto part = parts.find(name);
      const bool is_part = part != parts.end() && grad.shape() != part->second.shape;
      const size_t first = begin + (is_part ? static_cast<size_t>(part->second.range.begin) : 0);
      const auto got = grad.to_vector<double>();
      for (size_t i = 0; i < got.size(); ++i)
        if (const double g = (*want.gradient)[first + i];
            std::isfinite(g) && !(std::abs(got[i] - g) <= tolerance * (0.1 + std::abs(g))))
          return fmt::format("gradient {} of {} of {}: got {}, want {}", i, name, "AB"[model],
                             got[i], g);
      begin += static_cast<size_t>(tensor.shape().numel());
    }
    return "";
  }

  double scale() const { return models_[0].session().precision->state().at("scale"); }

  // Compares coarsely, since 8-bit weights have 4 significant bits. It detects stale 16-bit copies.
  std::string compare_output(const PlainLoop& plain, int model, int index) {
    if (setup_.strategy == "fp8") return "";  // weights larger than its history are clipped
    const BoostedModel& net = models_[static_cast<size_t>(model)];
    layers_[static_cast<size_t>(model)]->twice = false;
    net.eval();
    const auto got = net(input(index)).to_vector<double>();
    net.train();
    const Numbers want = plain.output(model, world_.rank, index);
    double largest = 1;
    for (const double w : plain.optimizer(model).value) largest = std::max(largest, std::abs(w));
    for (size_t i = 0; i < want.size(); ++i)
      if (std::isfinite(want[i]) && !(std::abs(got[i] - want[i]) <= 0.1 * size * largest))
        return fmt::format("output {} of {}: got {}, want {}", i, "AB"[model], got[i], want[i]);
    return "";
  }

  Setup setup_;
  World world_;
  std::string folder_;
  const StrategyLevel& strategy_;
  Booster booster_;
  std::vector<std::shared_ptr<Layer>> layers_;
  std::vector<BoostedModel> models_;
  std::vector<BoostedOptimizer> optimizers_;
  std::optional<Boosted> whole_;  // of one model
  int64_t saves_ = 0;
};

// Delays ranks differently, so that they never wait at the same moment; this reveals races.
void pause(const World& world, int index) {
  if (world.size > 1 && (index * 31 + world.rank * 17) % 5 == 0)
    usleep(static_cast<useconds_t>((index * 7919 + world.rank * 104729) % 1500));
}

}  // namespace

std::vector<std::string> strategies() {
  std::vector<std::string> names;
  for (const StrategyLevel& row : testing::strategy_levels()) names.push_back(row.name);
  return names;
}

Limits limits_of(const std::string& strategy) {
  return {.skips = strategy_named(strategy).skips,
          .local_passes = !strategy.starts_with("fp16_apex"),
          .poisons = strategy.starts_with("fp8")};
}

std::string play(const Sequence& sequence, const World& world, const std::string& folder) {
  PlainLoop plain(sequence.setup, strategy_named(sequence.setup.strategy).skips, world.size);
  RealLoop real(sequence.setup, world, folder);
  for (size_t i = 0; i < sequence.actions.size(); ++i) {
    const Action& action = sequence.actions[i];
    const int index = static_cast<int>(i);
    pause(world, index);
    const bool skipped = real.run(action, index, plain), want = plain.run(action, index);
    const std::string after = fmt::format("after action {}: ", i + 1);
    if (skipped != want)
      return fmt::format("{}step skipped: got {}, want {}", after, skipped, want);
    // Skips the comparison, so that the next call finds parameters that ranks still exchange.
    if (sequence.setup.late && action.call == Call::step) continue;
    const std::string difference = real.compare(plain, action, index);
    if (!difference.empty()) return after + difference;
  }
  return "";
}

}  // namespace booster::loop
