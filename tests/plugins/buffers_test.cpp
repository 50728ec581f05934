// Buffers of ranks: in every plugin all ranks evaluate with the buffers that a checkpoint holds,
// whatever they did before. An evaluation waits for no other rank.
#include "booster/booster.h"
#include "booster/checkpoint/safetensors/safetensors.h"
#include "booster/training/session.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <random>

using namespace booster;

namespace {

constexpr int64_t norm_channels = 4, norm_rows = 8;

Model with_norm() {
  manual_seed(5);
  return Sequential(
      {Linear(norm_channels, norm_channels), BatchNorm1d(norm_channels), Linear(norm_channels, 2)});
}

Tensor drawn_values(const Shape& shape, uint64_t seed) {
  Generator generator(seed);
  return normal(shape, 0, 1, {}, generator);
}

// Returns the output of the model that rank 0 saves.
Tensor as_saved(const BoostedModel& net, const Tensor& x, const Group& world) {
  const std::string file = test_folder() + "/saved.safetensors";
  save_model(net, file, {});
  world.barrier();
  const Model alone = with_norm();
  alone.load_state_dict(load_safetensors(file));
  alone.eval();
  const NoGradGuard no_grad;
  const Tensor y = alone(x);
  world.barrier();
  return y;
}

struct BufferWay {
  const char* name;
  std::function<Choice<Plugin>()> plugin;
  int ranks = 2;
  bool by_pipeline = false;
  bool evaluates_alone = true;  // each rank has the whole parameters
};

std::vector<BufferWay> buffer_ways() {
  const auto hybrid = [](HybridParallelOptions options) {
    return [options] {
      return Choice<Plugin>(HybridParallelPlugin(options, launch_from_env().group()));
    };
  };
  return {
      {"torch_ddp", [] { return Choice<Plugin>(TorchDDPPlugin()); }},
      {"torch_ddp, static graph",
       [] { return Choice<Plugin>(TorchDDPPlugin({.static_graph = true})); }},
      {"low_level_zero 1", [] { return Choice<Plugin>(LowLevelZeroPlugin()); }},
      {"low_level_zero 2, late",
       [] { return Choice<Plugin>(LowLevelZeroPlugin({.stage = 2, .overlap_allgather = true})); }},
      {"fsdp", [] { return Choice<Plugin>(FsdpPlugin()); }, 2, false, false},
      {"hybrid_parallel", hybrid({})},
      {"hybrid_parallel, zero 1", hybrid({.zero_stage = 1})},
      {"hybrid_parallel, zero 3", hybrid({.zero_stage = 3}), 2, false, false},
      {"hybrid_parallel, stages", hybrid({.pp_size = 2, .num_microbatches = 2}), 4, true, false},
      {"hybrid_parallel, cut layers",
       hybrid(
           {.tp_size = 2, .tensor_plan = {{"0", {.style = SplitStyle::column, .gather = true}}}}),
       4, false, false}};
}

// A training on this rank's own data, with calls in any order.
class BufferTraining {
 public:
  explicit BufferTraining(const BufferWay& way)
      : way_(way), booster_({.plugin = way.plugin()}), world_(launch_from_env().group()) {
    const Model model = with_norm();
    boosted_.emplace(booster_.boost(model, SGD(model.parameters(), {.lr = 0.05}), MSELoss()));
    average_.emplace(boosted_->optimizer.unwrap(), ParameterAverageOptions{.decay = 0.5});
  }
  const BoostedModel& net() const { return boosted_->model; }

  void step() {
    net().train();
    backward();
    boosted_->optimizer.step();
    boosted_->optimizer.zero_grad();
    average_->update();
  }
  void accumulate() {
    net().train();
    {
      const auto local = booster_.no_sync(net(), boosted_->optimizer);
      backward();
    }
    step();
  }
  void recalibrate() {
    net().train();
    const NoGradGuard no_grad;
    net()(batch());
  }
  // Runs passes without a step.
  void abandon() {
    net().train();
    backward();
    boosted_->optimizer.zero_grad();
    net().share_buffers();
  }
  // Checks that all ranks compute what the saved model computes.
  void evaluate() {
    const Tensor x = drawn_values({5, norm_channels}, 77);
    const Tensor want = as_saved(net(), x, world_);
    net().eval();
    const NoGradGuard no_grad;
    CHECK(amax(abs(net()(x) - want)).item() < 1e-6);
  }
  void evaluate_averages() {
    const Tensor x = drawn_values({5, norm_channels}, 78);
    const AveragedWeights weights = averaged_weights(boosted_->optimizer, *average_);
    const Tensor want = as_saved(net(), x, world_);
    net().eval();
    const NoGradGuard no_grad;
    CHECK(amax(abs(net()(x) - want)).item() < 1e-6);
  }
  // Evaluates on one rank, with or without a tape.
  void evaluate_alone(int rank, bool taped) {
    if (!way_.evaluates_alone || world_.rank() != rank) return;
    net().eval();
    const GradMode mode(taped);
    net()(drawn_values({3, norm_channels}, 79));
    net().train();
  }

 private:
  Tensor batch() {
    return drawn_values(
        {norm_rows, norm_channels},
        static_cast<uint64_t>(100 * ++batches_ + booster_.plugin().mesh().place("data")));
  }
  void backward() {
    Batch pair = {batch(), drawn_values({norm_rows, 2}, 3)};
    if (way_.by_pipeline) {
      const Batch* one = &pair;
      booster_.execute_pipeline(one, net(), boosted_->criterion, boosted_->optimizer);
    } else {
      booster_.backward(boosted_->criterion(net()(pair.image), pair.label), boosted_->optimizer);
    }
  }

  BufferWay way_;
  Booster booster_;
  Group world_;
  std::optional<BoostedTriple> boosted_;
  std::optional<ParameterAverage> average_;
  int64_t batches_ = 0;
};

void train_in_drawn_order(const BufferWay& way, uint32_t seed) {
  std::mt19937 random(seed);  // the same on all ranks
  BufferTraining training(way);
  for (int call = 0; call < 14; ++call) {
    const uint32_t kind = random() % 8;
    INFO(way.name, ", seed ", seed, ", call ", call, " of kind ", kind);
    if (kind < 2)
      training.step();
    else if (kind == 2)
      training.accumulate();
    else if (kind == 3)
      training.recalibrate();
    else if (kind == 4)
      training.abandon();
    else if (kind == 5)
      training.evaluate_alone(static_cast<int>(random() % 2), random() % 2 == 0);
    else if (kind == 6)
      training.evaluate_averages();
    training.evaluate();
  }
}

}  // namespace

TEST_CASE("rank: evaluations" * doctest::skip()) {
  const int size = launch_from_env().size;
  uint32_t seed = 1;
  for (const BufferWay& way : buffer_ways())
    if (way.ranks == size) train_in_drawn_order(way, ++seed);
}
TEST_CASE("all ranks evaluate with the buffers that are saved, in every plugin") {
  run_ranks("rank: evaluations", 2);
  run_ranks("rank: evaluations", 4);
}

// Uses the strategy whose ranks share magnitudes of a forward pass.
TEST_CASE("rank: evaluates alone" * doctest::skip()) {
  const World world = launch_from_env();
  manual_seed(1);
  const Model model = Sequential({Linear(16, 32), BatchNorm1d(32), Linear(32, 16)});
  Booster booster({.plugin = TorchDDPPlugin(), .mixed_precision = FP8MixedPrecision()});
  auto [net, optimizer, loss_fn] =
      booster.boost(model, SGD(model.parameters(), {.lr = 0.01}), MSELoss());
  for (uint64_t step = 0; step < 3; ++step) {
    const Tensor x = drawn_values({16, 16}, 10 * step + static_cast<uint64_t>(world.rank));
    booster.backward(loss_fn(net(x), x), optimizer);
    optimizer.step();
    optimizer.zero_grad();
    if (world.rank != 0) continue;
    net.eval();
    net(x * 3);  // on the tape
    net.train();
  }
  for (const NamedTensor& state : net.session().precision->state_tensors()) {
    std::vector<double> here = state.tensor.to_vector<double>(), first = here;
    world.group().broadcast(first);
    INFO(state.name);
    if (!state.name.ends_with(".amax")) CHECK(here == first);
  }
}
TEST_CASE("rank 0 evaluates alone without a word to the others, also in fp8") {
  run_ranks("rank: evaluates alone", 2, 60);
}

TEST_CASE("rank: own buffers" * doctest::skip()) {
  const World world = launch_from_env();
  const Model model = with_norm();
  Booster booster({.plugin = TorchDDPPlugin({.broadcast_buffers = false})});
  auto [net, optimizer, loss_fn] =
      booster.boost(model, SGD(model.parameters(), {.lr = 0.05}), MSELoss());
  const Tensor x = drawn_values({norm_rows, norm_channels}, static_cast<uint64_t>(world.rank));
  booster.backward(loss_fn(net(x), drawn_values({norm_rows, 2}, 3)), optimizer);
  optimizer.step();
  std::vector<float> mean = model.buffers()[0].tensor.to_vector<float>(), first = mean;
  world.group().broadcast(first);
  CHECK((mean == first) == (world.rank == 0));
}
TEST_CASE("with broadcast_buffers = false ranks keep buffers of their own") {
  run_ranks("rank: own buffers", 2);
}

TEST_CASE("rank: evaluates what no step shared" * doctest::skip()) {
  const std::pair<const char*, Choice<Plugin>> plugins[] = {
      {"torch_ddp", TorchDDPPlugin()}, {"hybrid_parallel", HybridParallelPlugin()}};
  for (const auto& [name, plugin] : plugins) {
    INFO(name);
    const Model model = with_norm();
    Booster booster({.plugin = plugin});
    auto [net, optimizer, loss_fn] =
        booster.boost(model, SGD(model.parameters(), {.lr = 0.05}), MSELoss());
    const Tensor x = drawn_values({norm_rows, norm_channels}, 1),
                 y = drawn_values({norm_rows, 2}, 3);
    const auto is_noted = [session = &net.session()] {
      return std::ranges::any_of(session->plugin->notes(), [](const std::string& note) {
        return note.find("evaluation after training passes without a step") != note.npos;
      });
    };
    booster.backward(loss_fn(net(x), y), optimizer);
    optimizer.step();
    optimizer.zero_grad();
    net.eval();
    net(x);
    CHECK_FALSE(is_noted());
    net.train();
    {
      const auto local = booster.no_sync(net, optimizer);
      booster.backward(loss_fn(net(x), y), optimizer);
    }
    net.eval();
    net(x);
    CHECK(is_noted());
  }
}
TEST_CASE("an evaluation after passes that no step ended is noted") {
  run_ranks("rank: evaluates what no step shared", 2);
}
