// cpu_offload when training on GPUs: where state is kept, the resulting values, and checkpoints
// from and to trainings without it.
#include "core/optim/algorithms/registry.h"
#include "core/tensor/memory/allocator.h"
#include "kernels/device/memory.h"
#include "tests/on_gpu.h"
#include "tests/parallel/gpu/gpu_ranks.h"
#include "tests/parallel/ranks.h"
#include "tests/plugins/spread_runs.h"
#include "tests/plugins/trained.h"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace booster;
using namespace booster::testing;

namespace {

Device gpu_here(const Group& world) {
  return Device::cuda(world.rank() % kernels::cuda_device_count());
}

struct Way {
  const char* name;
  int stage;  // of ZeRO
  bool is_offloaded = true;
};

Choice<Plugin> plugin_of(const Way& way, const Group& world) {
  if (way.stage == 3) return FsdpPlugin({.cpu_offload = way.is_offloaded}, world);
  return LowLevelZeroPlugin({.stage = way.stage,
                             .reduce_bucket_size_in_m = 0.002,
                             .cpu_offload = way.is_offloaded},
                            world);
}

Spread spread_as(const Way& way, const Group& world) {
  return {.name = way.name,
          .plugin = plugin_of(way, world),
          .model = network,
          .shares = world.size(),
          .share = world.rank(),
          .breaking_rank = 0};
}
Spread zero_1(const Group& world) { return spread_as({"zero 1, offloaded", 1}, world); }
Spread zero_2(const Group& world) { return spread_as({"zero 2, offloaded", 2}, world); }
Spread offloaded_fsdp(const Group& world) { return spread_as({"fsdp, offloaded", 3}, world); }

// Returns a model of 10 units, so that two or three of them in flight are a small part.
Model deep() {
  std::vector<Model> layers = {Linear(features, hidden)};
  for (int i = 0; i < 8; ++i) layers.push_back(Linear(hidden, hidden));
  layers.push_back(Linear(hidden, features));
  return Sequential(layers);
}

std::vector<StrategyLevel> few_strategies() {
  std::vector<StrategyLevel> few;
  for (const StrategyLevel& strategy : strategy_levels())
    for (const char* name : {"fp32", "fp16", "fp16_naive", "bf16 kahan"})
      if (strategy.name == std::string(name)) few.push_back(strategy);
  return few;
}

// Runs some steps with clips and one overflow; then compares whole weights and the optimizer's
// state.
class OffloadedTraining {
 public:
  OffloadedTraining(const StrategyLevel& strategy, const Way& way, const std::string& rule,
                    const Group& world, Model (*make)() = network)
      : world_(world),
        skips_(strategy.skips),
        device_(gpu_here(world)),
        booster_({.plugin = plugin_of(way, world), .mixed_precision = strategy.make}),
        model_(drawn(make)),
        boosted_(booster_.boost(model_, optimizer(rule))) {}

  void step(int i) {
    auto& [net, optimizer] = boosted_;
    optimizer.zero_grad();
    Generator generator(static_cast<uint64_t>(10 * i + world_.rank()));
    const Tensor x = uniform({batch, features}, -1, 1, {}, generator).to(device_);
    const Tensor y = cast(net(x), DType::f32);
    booster_.backward(mean(y * y) * (skips_ && i == 1 ? INFINITY : 1), optimizer);
    if (i % 2 == 0) optimizer.clip_grad_by_norm(0.05);
    optimizer.step();
  }
  void write_weights() const {
    const NoGradGuard no_grad;
    const WholeParameters whole(boosted_.model);
    for (const auto& [name, tensor] : model_.parameters()) Tensor(tensor).mul_(0.5);
  }
  StateDict state() const {
    const WholeParameters whole(boosted_.model);
    StateDict all = kept();
    for (const auto& [name, tensor] : model_.state_dict()) all.push_back({name, tensor.clone()});
    return all;
  }
  StateDict kept() const {
    StateDict all;
    for (const auto& [name, tensor] : boosted_.optimizer.unwrap().state_dict().tensors)
      all.push_back({name, tensor.clone()});
    return all;
  }
  int64_t parameter_bytes() const {
    int64_t bytes = 0;
    for (const auto& [name, tensor] : model_.parameters()) bytes += tensor.bytes();
    return bytes;
  }

 private:
  Model drawn(Model (*make)()) const {
    manual_seed(5);
    Model model = make();
    model->to(device_);
    return model;
  }
  Optimizer optimizer(const std::string& rule) const {
    return make_optimizer(rule, ParameterGroups(model_.parameters()),
                          {{"lr", 0.01}, {"eps", 1e-3}});
  }

  Group world_;
  bool skips_;
  Device device_;
  Booster booster_;
  Model model_;
  BoostedPair boosted_;
};

// Neither the CPU emulator of CUDA nor the CPU's portable kernels fuse multiplications with
// additions, as others do. Between these two all bits are equal.
constexpr const char* variant = "BOOSTER_CPU_VARIANT";
bool wants_same_bits() {
  const char* set = std::getenv(variant);
  return set && set == std::string("portable");
}

void check_numbers() {
  const Group world = launch_from_env().group();
  for (const StrategyLevel& strategy : few_strategies())
    for (const int stage : {1, 2, 3})
      for (const char* rule : {"adamw", "lamb"}) {
        INFO(std::string(strategy.name), " ", stage, " ", rule);
        OffloadedTraining offloaded(strategy, {"", stage}, rule, world),
            usual(strategy, {"", stage, false}, rule, world);
        Trained want;
        want.start = usual.state();
        for (int i = 0; i < 4; ++i) {
          offloaded.step(i);
          usual.step(i);
        }
        want.state = usual.state();
        double worst = 0;
        if (wants_same_bits()) CHECK(different_bits(offloaded.state(), want.state) == "");
        else CHECK(compare(offloaded.state(), want, want.state, tolerance_of(strategy), 2, worst) ==
                   "");
      }
}

// Returns the bytes on this rank's GPU.
int64_t bytes_there(const Group& world, MemoryTag tag) { return live_bytes(gpu_here(world), tag); }

void check_places() {
  const Group world = launch_from_env().group();
  for (const StrategyLevel& strategy : few_strategies())
    for (const Way& way : {Way{"", 1}, Way{"", 2}, Way{"", 3}, Way{"", 2, false}}) {
      INFO(std::string(strategy.name), " ", way.stage, " ", way.is_offloaded);
      const int64_t before = bytes_there(world, MemoryTag::parameters);
      OffloadedTraining training(strategy, way, "adamw", world, deep);
      for (int i = 0; i < 3; ++i) training.step(i);
      training.write_weights();
      const int64_t state = bytes_there(world, MemoryTag::optimizer_state) +
                            bytes_there(world, MemoryTag::masters),
                    parameters = bytes_there(world, MemoryTag::parameters) - before;
      const int64_t most_parameters = training.parameter_bytes();
      if (way.is_offloaded) CHECK(state == 0);
      else CHECK(state > most_parameters / 2);
      if (way.stage == 3) CHECK(parameters < most_parameters / 4);
      for (const auto& [name, tensor] : training.kept())
        CHECK((tensor.device() == Device{}) == way.is_offloaded);
    }
}

void check_checkpoints() {
  const Group world = launch_from_env().group();
  const Way ways[] = {{"zero 2, offloaded", 2},
                      {"zero 1", 1, false},
                      {"fsdp, offloaded", 3},
                      {"fsdp", 3, false},
                      {"zero 2, offloaded", 2}};
  for (const StrategyLevel& strategy : few_strategies())
    for (size_t i = 0; i + 1 < std::size(ways); ++i) {
      INFO(std::string(strategy.name), ": from ", std::string(ways[i].name), " to ",
           std::string(ways[i + 1].name));
      Spread from = spread_as(ways[i], world), to = spread_as(ways[i + 1], world);
      from.device = to.device = gpu_here(world);
      CHECK(resume_elsewhere(strategy, from, to,
                             test_folder() + "/" + strategy.name + std::to_string(i)) == "");
    }
}

}  // namespace

TEST_CASE("rank: offloaded zero 1" * doctest::skip()) { train_all(zero_1); }
TEST_CASE("rank: offloaded zero 2" * doctest::skip()) { train_all(zero_2); }
TEST_CASE("rank: offloaded fsdp" * doctest::skip()) { train_all(offloaded_fsdp); }
TEST_CASE("rank: offloaded numbers" * doctest::skip()) { check_numbers(); }
TEST_CASE("rank: offloaded places" * doctest::skip()) { check_places(); }
TEST_CASE("rank: offloaded checkpoints" * doctest::skip()) { check_checkpoints(); }

TEST_CASE("GPU: with state on the host ranks train as one process on the CPU" * on_gpu()) {
  run_ranks_on_gpus("rank: offloaded zero 1", 2);
  run_ranks_on_gpus("rank: offloaded zero 2", 3, 2);
  run_ranks_on_gpus("rank: offloaded fsdp", 2);
  run_ranks_on_gpus("rank: offloaded fsdp", 3, 1);
}
TEST_CASE("GPU: with state on the host trainings give what they give without" * on_gpu()) {
  if (gpus_are_played()) ::setenv(variant, "portable", 1);
  run_ranks_on_gpus("rank: offloaded numbers", 2);
  if (gpus_are_played()) ::unsetenv(variant);
}
TEST_CASE("GPU: state that is on the host is nowhere else, and so are fsdp's parts" * on_gpu()) {
  run_ranks_on_gpus("rank: offloaded places", 2);
}
TEST_CASE("GPU: checkpoints go from state on the host to state on GPUs, and back" * on_gpu()) {
  run_ranks_on_gpus("rank: offloaded checkpoints", 2);
}
