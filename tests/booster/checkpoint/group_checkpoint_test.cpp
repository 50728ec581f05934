// Checkpoints of models and optimizers that train together, and of the program's own tensors.
#include "booster/booster.h"
#include "core/optim/optimizers.h"
#include "platform/files/file.h"
#include "tests/booster/checkpoint/shared_root.h"
#include "tests/booster/checkpoint/small_training.h"
#include "tests/booster/temporary_folder.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <cstdlib>

using namespace booster;
using namespace booster::test;
using doctest::Contains;

namespace {

struct GanSettings {
  std::string plugin = "single", strategy = "fp32";
  double lr = 0.01;
  uint64_t seed = 1;
};

// Two models with equal parameter names, two optimizers, two schedules and a loader.
class Gan {
 public:
  explicit Gan(const GanSettings& settings)
      : booster_({.plugin = plugin(settings.plugin), .mixed_precision = settings.strategy}) {
    manual_seed(settings.seed);
    const Model generator = Sequential{Linear(4, 8), ReLU(), Linear(8, 6)};
    const Model critic = Sequential{Linear(6, 8), ReLU(), Linear(8, 1)};
    const auto opt_g = AdamW(generator.parameters(), {.lr = settings.lr});
    const auto opt_c = SGD(critic.parameters(), {.lr = 0.05, .momentum = 0.9});
    parts = {.dataloader = booster_.prepare_dataloader(
                 TensorDataset(images(), arange(24)), {.batch_size = 4, .shuffle = true}),
             .lr_schedulers = {StepLR(opt_g, {.step_size = 2, .gamma = 0.5}),
                               StepLR(opt_c, {.step_size = 3, .gamma = 0.7})}};
    group = booster_.boost({generator, critic}, {opt_g, opt_c});
  }

  // Continues from the loader's position; noise comes from the random stream.
  void steps(int64_t count) {
    parts.dataloader->load_state(parts.dataloader->state());  // continues a started epoch
    while (count > 0)
      for (auto& [real, label] : *parts.dataloader) {
        step(real);
        if (--count == 0) return;
      }
  }

  std::vector<float> numbers() const {
    std::vector<float> all;
    const WholeParameters whole(group.models[0]);
    for (const BoostedModel& model : group.models)
      for (const auto& [name, tensor] : model.unwrap().state_dict())
        for (const float x : tensor.to_vector<float>()) all.push_back(x);
    for (const BoostedOptimizer& optimizer : group.optimizers) {
      all.push_back(static_cast<float>(optimizer.lr()));
      for (const auto& [name, tensor] : optimizer.unwrap().state_dict().tensors)
        for (const float x : tensor.to_vector<float>()) all.push_back(x);
    }
    return all;
  }

  BoostedGroup group;
  GroupParts parts;

 private:
  static Choice<Plugin> plugin(const std::string& name) {
    if (name == "tensor") return HybridParallelPlugin({.tp_size = 2});
    if (name == "alone") return SinglePlugin({.on_every_rank = true});
    return name;
  }
  static Tensor images() {
    Generator generator(3);
    return uniform({24, 6}, -1, 1, {}, generator);
  }

  void step(const Tensor& real) {
    auto& [models, optimizers] = group;
    const Tensor fake = models[0](normal({real.size(0), 4}));
    optimizers[1].zero_grad();
    const Tensor critic_loss = mean(cast(models[1](fake.detach()), DType::f32)) -
                               mean(cast(models[1](real), DType::f32));
    booster_.backward(critic_loss, optimizers[1]);
    parts.lr_schedulers[1].step(optimizers[1].step());
    optimizers[0].zero_grad();
    optimizers[1].zero_grad();
    const Tensor loss = -mean(cast(models[1](models[0](normal({4, 4}))), DType::f32));
    booster_.backward(loss, optimizers);
    parts.lr_schedulers[0].step(optimizers[0].step());
    optimizers[1].zero_grad();
  }

  Booster booster_;
};

// Makes both draw from the resumed stream.
void step_both(Gan& first, Gan& second) {
  const RandomState resumed = default_generator().state();
  first.steps(7);
  default_generator().set_state(resumed);
  second.steps(7);
}

std::string error_of_resume(const std::filesystem::path& root, Gan& gan) {
  try {
    resume_training(root, gan.group, gan.parts, ignore_line);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a group goes on bit for bit from one checkpoint, in every strategy, within an epoch") {
  for (const char* strategy : {"fp32", "fp16", "bf16", "fp16_naive"})
    for (const int64_t before : {4, 8}) {
      CAPTURE(strategy);
      const TemporaryFolder root;
      Gan first({.strategy = strategy});
      first.steps(before);
      if (before == 4) {
        save_training(root.path(), first.group, first.parts, {.step = before});
      } else {
        save_training_async(root.path(), first.group, first.parts, {.step = before}).wait();
      }
      Gan second({.strategy = strategy, .seed = 9});
      CHECK(second.numbers() != first.numbers());
      std::vector<std::string> told;
      const auto resumed = resume_training(root.path(), second.group, second.parts,
                                           [&](const std::string& line) { told.push_back(line); });
      REQUIRE(resumed);
      CHECK(resumed->step == before);
      CHECK(told.empty());
      CHECK(second.numbers() == first.numbers());
      step_both(first, second);
      CHECK(second.numbers() == first.numbers());
    }
}

TEST_CASE("a changed option of one of the optimizers counts, and is told by its number") {
  const TemporaryFolder root;
  Gan first({});
  first.steps(3);
  save_training(root.path(), first.group, first.parts, {.step = 3});
  Gan second({.lr = 0.5});
  std::vector<std::string> told;
  resume_training(root.path(), second.group, second.parts,
                  [&](const std::string& line) { told.push_back(line); });
  REQUIRE(told.size() == 1);
  CHECK(told[0].find("0.optimizer.lr: changed from 0.01 to 0.5") == 0);
  CHECK(second.group.optimizers[0].lr() == 0.25);
}

TEST_CASE("what does not fit a group's checkpoint is an error, and nothing is changed") {
  const TemporaryFolder root;
  Gan gan({});
  gan.steps(2);
  save_training(root.path(), gan.group, gan.parts, {.step = 2});
  gan.steps(1);
  const auto before = gan.numbers();
  SmallTraining one;
  CHECK_THROWS_WITH_AS(resume_training(root.path(), one.boosted, ignore_line),
                       Contains("a group of models"), Error);
  Gan other({.strategy = "fp16"});
  CHECK(error_of_resume(root.path(), other).find("another precision") != std::string::npos);
  std::swap(gan.parts.lr_schedulers[0], gan.parts.lr_schedulers[1]);
  gan.parts.lr_schedulers.pop_back();
  CHECK(error_of_resume(root.path(), gan).find("a schedule for each") != std::string::npos);
  gan.parts.lr_schedulers.clear();
  CHECK(error_of_resume(root.path(), gan).find("another lr_scheduler") != std::string::npos);
  CHECK(gan.numbers() == before);
  const TemporaryFolder single;
  save_training(single.path(), one.boosted, {.step = 1});
  CHECK(error_of_resume(single.path(), gan).find("of one model") != std::string::npos);
}

namespace {

const char* const spread_plugins[] = {"torch_ddp", "low_level_zero", "fsdp", "tensor"};

// Trains, saves and resumes groups under a plugin, in every strategy; ranks share the folder.
void resume_spread_groups(const std::string& plugin) {
  const World world = launch_from_env();
  unsigned number = 0;
  for (const char* strategy : {"fp32", "fp16", "bf16", "fp16_naive", "fp8"}) {
    CAPTURE(strategy);
    const std::filesystem::path folder = test_root() / std::to_string(number++);
    Gan first({.plugin = plugin, .strategy = strategy});
    first.steps(4);
    save_training(folder, first.group, first.parts, {.step = 4});
    Gan second({.plugin = plugin, .strategy = strategy, .seed = 9});
    REQUIRE(resume_training(folder, second.group, second.parts, ignore_line));
    CHECK(second.numbers() == first.numbers());
    step_both(first, second);
    CHECK(second.numbers() == first.numbers());
    // One process continues it as well.
    if (world.rank == 0) {
      Gan alone({.plugin = "alone", .strategy = strategy, .seed = 5});
      REQUIRE(resume_training(folder, alone.group, alone.parts, ignore_line));
    }
    world.group().barrier();
  }
}

}  // namespace

TEST_CASE("rank: spread group 0" * doctest::skip()) { resume_spread_groups(spread_plugins[0]); }
TEST_CASE("rank: spread group 1" * doctest::skip()) { resume_spread_groups(spread_plugins[1]); }
TEST_CASE("rank: spread group 2" * doctest::skip()) { resume_spread_groups(spread_plugins[2]); }
TEST_CASE("rank: spread group 3" * doctest::skip()) { resume_spread_groups(spread_plugins[3]); }
TEST_CASE("a group goes on bit for bit under every plugin, in every strategy") {
  for (int i = 0; i < 4; ++i) {
    CAPTURE(spread_plugins[i]);
    run_ranks_at_root(fmt::format("rank: spread group {}", i), 2);
  }
}

TEST_CASE("a group without loader and schedules is saved too") {
  const TemporaryFolder root;
  Gan first({}), second({.seed = 5});
  first.steps(3);
  save_training(root.path(), first.group, {}, {.step = 3, .extra = {{"best", 0.5}}});
  const auto resumed = resume_training(root.path(), second.group, {}, ignore_line);
  CHECK(resumed->extra.at("best") == 0.5);
  CHECK(second.group.models[0].unwrap().state_dict()[0].tensor.to_vector<float>() ==
        first.group.models[0].unwrap().state_dict()[0].tensor.to_vector<float>());
}

TEST_CASE("tensors of the program's own travel with a checkpoint: an average of the weights") {
  const TemporaryFolder root;
  SmallTraining training;
  ParameterAverage average(training.boosted.optimizer.unwrap(), {.decay = 0.5});
  training.steps(3);
  average.update();
  training.steps(3);
  save_training(root.path(), training.boosted, {.step = 6, .tensors = average.state_dict()});
  SmallTraining again({.seed = 42});
  const auto resumed = resume_training(root.path(), again.boosted, ignore_line);
  ParameterAverage restored(again.boosted.optimizer.unwrap(), {.decay = 0.5});
  restored.load_state_dict(resumed->tensors);
  for (const auto& [name, tensor] : average.state_dict())
    CHECK(restored.state_dict().at(name).to_vector<float>() == tensor.to_vector<float>());
  CHECK(restored.state_dict().begin()->second.to_vector<float>() !=
        again.boosted.optimizer.unwrap().parameters()[0].tensor.to_vector<float>());
  save_training(root.path(), again.boosted, {.step = 7});
  CHECK(resume_training(root.path(), again.boosted, ignore_line)->tensors.empty());
}

TEST_CASE("rank: a group on two ranks" * doctest::skip()) {
  launch_from_env();
  const std::filesystem::path root = std::getenv("TEST_ROOT");
  Gan first({.plugin = "torch_ddp", .strategy = "fp16"});
  first.steps(2);
  const Tensor own = full({2}, static_cast<double>(launch_from_env().rank + 1));
  save_training(root, first.group, first.parts, {.step = 2, .tensors = {{"own", own}}});
  Gan second({.plugin = "torch_ddp", .strategy = "fp16", .seed = 7});
  const auto resumed = resume_training(root, second.group, second.parts, ignore_line);
  CHECK(resumed->tensors.at("own").to_vector<float>() == std::vector<float>{1, 1});
  CHECK(second.numbers() == first.numbers());
  step_both(first, second);
  CHECK(second.numbers() == first.numbers());
}
TEST_CASE("a group on two ranks goes on from one checkpoint; own tensors are rank 0's") {
  const TemporaryFolder root;
  CHECK(failures(Ranks("rank: a group on two ranks", 2, {{"TEST_ROOT", root.path().string()}})
                     .wait(120)) == "");
}
