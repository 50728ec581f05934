// With overlap_allgather, parameters arrive when they are used. Forward begins while later layers'
// parameters are in flight; reading one anywhere else gives its value after the step.
#include "booster/booster.h"
#include "core/tensor/absence.h"
#include "tests/draws.h"
#include "tests/parallel/ranks.h"
#include "tests/plugins/spread_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

using namespace booster;
using namespace booster::testing;

namespace {

constexpr int64_t late_width = 7, late_rows = 6;

// Layer 1 runs twice; layer 2 runs again in backward.
struct Layers : Module {
  Layers() : Module("Layers") {
    for (const char* name : {"0", "1", "2", "3"})
      all.push_back(&add<Linear>(name, late_width, late_width));
    all[2]->set_recompute(true);
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (const size_t i : {0, 1, 2, 1, 3}) y = (*all[i])(y);
    return y;
  }
  std::vector<Linear*> all;
};

struct LateTraining {
  // One message per parameter.
  LateTraining(const Group& world, bool late, const char* precision)
      : booster(
            {.plugin = LowLevelZeroPlugin(
                 {.stage = 2, .reduce_bucket_size_in_m = 1e-6, .overlap_allgather = late}, world),
             .mixed_precision = precision}),
        layers(drawn()),
        boosted(booster.boost(Model(layers), AdamW(Model(layers).parameters(), {.lr = 0.1}))) {}
  static std::shared_ptr<Layers> drawn() {
    manual_seed(3);
    return std::make_shared<Layers>();
  }
  static Tensor input(int seed) {
    Generator generator(static_cast<uint64_t>(seed));
    return uniform({late_rows, late_width}, -1, 1, {}, generator);
  }
  void backward(int seed) {
    const Tensor y = cast(boosted.model(input(seed)), DType::f32);
    booster.backward(mean(y * y), boosted.optimizer);
  }
  Tensor weight(int layer) const { return layers->all[static_cast<size_t>(layer)]->weight; }
  // Returns the layers whose values have arrived.
  std::string here() const {
    std::string names;
    for (int i = 0; i < 4; ++i)
      if (has_memory(weight(i))) names += std::to_string(i);
    return names;
  }
  std::vector<double> numbers() const {
    std::vector<double> all;
    for (const NamedTensor& parameter : boosted.model.unwrap().parameters()) {
      const auto some = parameter.tensor.to_vector<double>();
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }

  Booster booster;
  std::shared_ptr<Layers> layers;
  BoostedPair boosted;
};

void check_order() {
  LateTraining training(launch_from_env().group(), true, "fp32");
  training.backward(1);
  std::vector<std::string> seen;
  for (Linear* layer : training.layers->all)
    layer->register_forward_pre_hook([&](Module&, const Tensor&) {
      seen.push_back(training.here());
      return Tensor();
    });
  for (int step = 0; step < 2; ++step) {
    training.boosted.optimizer.step();
    CHECK(training.here() == "");
    training.boosted.model(LateTraining::input(2));
    // At the start of layers 0, 1, 2, 1 and 3.
    CHECK(seen == std::vector<std::string>{"", "0", "01", "012", "012"});
    CHECK(training.here() == "0123");
    seen.clear();
  }
}

// Performs a program action between two forward passes; returns the values that it sees.
std::vector<double> act(LateTraining& training, int action, int seed, const std::string& folder) {
  auto& [net, optimizer] = training.boosted;
  const int layer = seed % 4;
  switch (action) {
    case 0: optimizer.zero_grad(); break;
    case 1: return {double(optimizer.clip_grad_by_norm(0.01))};
    case 2: return training.weight(layer).to_vector<double>();
    case 3: {
      const NoGradGuard no_grad;
      return cast(net(LateTraining::input(seed)), DType::f64).to_vector<double>();
    }
    case 4: {  // all ranks write the same
      const NoGradGuard no_grad;
      training.weight(layer).mul_(0.5);
      break;
    }
    case 5: {
      const WholeParameters whole(net);
      return training.numbers();
    }
    case 6: training.booster.save_model(net, folder + "/model"); break;
    case 7: training.booster.load_model(net, folder + "/model"); break;
    case 8: {
      const ParameterAverage average(optimizer.unwrap(), {.decay = 0.5});
      const AveragedWeights weights = averaged_weights(optimizer, average);
      const NoGradGuard no_grad;
      return cast(net(LateTraining::input(seed)), DType::f64).to_vector<double>();
    }
    default:  // several steps, some without a pass in between
      if (action < 13) training.backward(seed);
      optimizer.step();
  }
  return {};
}

// Treats nan as equal: naive gradients overflow.
bool is_same(const std::vector<double>& got, const std::vector<double>& want) {
  return std::ranges::equal(
      got, want, [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); });
}

void check_bits(const std::string& folder) {
  const Group world = launch_from_env().group();
  for (const unsigned trial : testing::draws(48)) {
    const char* precision = std::array{"fp32", "bf16", "fp16", "fp16_naive"}[trial % 4];
    LateTraining late(world, true, precision), usual(world, false, precision);
    std::mt19937 random(static_cast<unsigned>(trial));
    std::string told = precision;
    for (LateTraining* training : {&late, &usual}) {
      training->booster.save_model(training->boosted.model, folder + "/model");
      training->backward(0);
    }
    for (int i = 0; i < 20; ++i) {
      const int action = static_cast<int>(random() % 16), seed = static_cast<int>(random() % 100);
      told += " " + std::to_string(action);
      INFO(told);
      const auto got = act(late, action, seed, folder), want = act(usual, action, seed, folder);
      CHECK(is_same(got, want));
    }
    INFO(told);
    CHECK(is_same(late.numbers(), usual.numbers()));
  }
}

// Parameters in flight arrive even after the plugin is gone.
void check_left_behind() {
  std::shared_ptr<Layers> layers;
  std::vector<double> want;
  for (const bool late : {false, true}) {
    LateTraining training(launch_from_env().group(), late, "fp32");
    training.backward(1);
    training.boosted.optimizer.step();
    layers = training.layers;
    if (!late) want = training.weight(3).to_vector<double>();
  }
  CHECK_FALSE(has_memory(layers->all[3]->weight));
  CHECK(layers->all[3]->weight.to_vector<double>() == want);
}

}  // namespace

TEST_CASE("rank: order of late parameters" * doctest::skip()) { check_order(); }
TEST_CASE("rank: bits of late parameters" * doctest::skip()) { check_bits(test_folder()); }
TEST_CASE("rank: late parameters left behind" * doctest::skip()) { check_left_behind(); }

TEST_CASE("a layer runs while the parameters of those behind it are on their way") {
  run_ranks("rank: order of late parameters", 2);
}
TEST_CASE("parameters that come late are the same bits to whoever reads or writes them") {
  run_ranks("rank: bits of late parameters", 3);
}
TEST_CASE("parameters that are on their way come to a model that is boosted no more") {
  run_ranks("rank: late parameters left behind", 2);
}
