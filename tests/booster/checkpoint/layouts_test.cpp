// A training that moves between layouts (plugin, number of ranks, batch size) equals a training of
// one process on the same batches. Its state right after a resume is bitwise equal to the saved
// state.
#include "booster/checkpoint/safetensors/safetensors.h"
#include "tests/booster/checkpoint/layout_legs.h"
#include "tests/booster/checkpoint/newest.h"
#include "tests/booster/checkpoint/shared_root.h"
#include "tests/booster/temporary_folder.h"
#include "tests/capture_part.h"
#include "tests/checkpoint_contents.h"
#include "tests/draws.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

using namespace booster;
using namespace booster::test;
using namespace booster::layouts;
using doctest::Contains;

namespace {

std::string all_bytes(const TensorMap& tensors) {
  std::string all;
  for (const auto& [name, tensor] : tensors)
    all +=
        name + tensor.shape().to_string() + name_of(tensor.dtype()) +
        std::string(static_cast<const char*>(tensor.data()), static_cast<size_t>(tensor.bytes()));
  return all;
}

// Returns the contents that a save right after a resume must share with the resumed checkpoint.
std::string all_of(const CheckpointContents& contents) {
  nlohmann::json numbers = contents.state;
  for (const char* layout : {"plugin", "random", "loader"}) numbers.erase(layout);
  return all_bytes(contents.model) + all_bytes(contents.optimizer) + all_bytes(contents.precision) +
         numbers.dump();
}

// Trains on the same batches, in the order that all samplers share.
struct PlainLoop {
  Training training;
  Tensor input = data_input(), target = data_target();
  uint64_t epoch = 0;
  int64_t done = 0;  // samples of this epoch

  void step(int64_t size) {
    if (done == samples) ++epoch, done = 0;
    const auto order = RandomSampler(samples, order_seed).indices(epoch);
    std::vector<float> x;
    std::vector<int64_t> y;
    const auto all_x = input.to_vector<float>();
    const auto all_y = target.to_vector<int64_t>();
    for (int64_t i = done; i < done + size; ++i) {
      const int64_t at = order[static_cast<size_t>(i)];
      x.insert(x.end(), &all_x[static_cast<size_t>(at * features)],
               &all_x[static_cast<size_t>(at * features)] + features);
      y.push_back(all_y[static_cast<size_t>(at)]);
    }
    done += size;
    training.step(from_vector(x, {size, features}), from_vector(y, {size}));
  }
};

double norm(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// Returns a tensor's distance from its reference, relative to the change in training, beyond its
// dtype's rounding. A scale near 1 hardly changes, so rounding covers most digits of its change.
double distance(const Tensor& got, const Tensor& want, const Tensor& start) {
  const auto to = want.to_vector<double>();
  const std::vector<double> zero(to.size());
  const double rounding = want.dtype() == DType::bf16 ? 0x1p-8 : 0x1p-22;  // several f32 steps
  const double apart = norm(got.to_vector<double>(), to) - rounding * norm(to, zero);
  return std::max(apart, 0.0) /
         (norm(to, start.defined() ? start.to_vector<double>() : zero) + 1e-12);
}

double tolerance_of(const Kind& kind) {
  if (std::string(kind.strategy) == "fp32") return 1e-5;
  const bool is_bf16 = std::string(kind.strategy) != "fp16";
  return kind.is_gpt2 && is_bf16 ? 8e-2 : 2e-2;  // rounding grows with depth
}

struct Chain {
  Kind kind;
  World world;
  std::filesystem::path root;
  std::unique_ptr<PlainLoop> plain;  // on rank 0
  int64_t step = 0;
  Tensor averaged = {};  // outputs with averages after the last leg that had this rank
  int last_rank = 0;     // a rank of the last leg

  // Performs a program run: resumes, trains, saves, and is destroyed.
  void run(const Leg& leg) {
    const bool here = std::ranges::count(leg.ranks, world.rank) > 0;
    last_rank = leg.ranks.front();
    if (here) {
      const Group group = world.group().subgroup(leg.ranks);
      Training training = spread(kind, leg, group);
      const SaveOptions options = {.size_per_shard = leg.shards ? 100.0 / (1 << 20) : 1024};
      if (const auto resumed = resume_training(root, training.boosted, ignore_line)) {
        CHECK(resumed->step == step);
        check_same(training, group, options);
      }
      training.steps(leg.steps);
      check_averages(training);
      const Progress progress = {.step = step + leg.steps};
      if (leg.async) {
        PendingSave saving = save_training_async(root, training.boosted, progress, options);
        training.steps(2);  // not saved
        saving.wait();
      } else {
        save_training(root, training.boosted, progress, options);
      }
    }
    step += leg.steps;
    if (plain)
      for (int i = 0; i < leg.steps; ++i) plain->step(leg.samples_per_step());
    world.group().barrier();
  }

  void check_same(Training& training, const Group& group, const SaveOptions& options) {
    const auto again = root.string() + "-again";
    save_training(again, training.boosted, {.step = step}, options);
    const bool same = group.rank() != 0 || all_of(newest(again)) == all_of(newest(root));
    CHECK(same);
  }

  // Checks that evaluation with averages leaves no trace.
  void check_averages(Training& training) {
    const auto before = training.outputs_of_all().to_vector<float>();
    averaged = training.outputs_with_averages();
    CHECK(training.outputs_of_all().to_vector<float>() == before);
  }

  void compare(double tolerance) {
    if (averaged.defined())
      world.group().broadcast(averaged, last_rank);
    else
      world.group().broadcast(averaged = empty(output_shape(kind)), last_rank);
    if (world.rank == 0) {
      CHECK(distance(averaged, plain->training.outputs_with_averages(), Tensor()) <= tolerance);
      const CheckpointContents got = newest(root);
      StateDict start;
      for (const auto& [name, tensor] : alone(kind, 1).boosted.model.unwrap().state_dict())
        start.push_back({name, tensor});
      for (const auto& [name, tensor] : plain->training.boosted.model.unwrap().state_dict()) {
        CAPTURE_PART(name);
        const auto from = std::ranges::find(start, name, &NamedTensor::name)->tensor;
        CHECK(distance(got.model.at(name), tensor, from) <= tolerance);
      }
      for (const auto& [name, tensor] :
           plain->training.boosted.optimizer.unwrap().state_dict().tensors) {
        CAPTURE_PART(name);
        Tensor from;
        for (const auto& [weight, at] : start)
          if (name == weight + ".master" || name == weight + ".average") from = at;
        // A mean of gradients is a cancelling sum, so its relative error is larger than the
        // weights' error.
        const double sums = kind.is_gpt2 && tolerance > 1e-5 && !from.defined() ? 4 : 1;
        CHECK(distance(got.optimizer.at(name), tensor, from) <= sums * tolerance);
      }
    }
    world.group().barrier();
  }
};

void play(const Kind& kind, const std::vector<Leg>& legs, const World& world,
          const std::filesystem::path& root) {
  Chain chain{kind, world, root, nullptr};
  if (world.rank == 0) chain.plain.reset(new PlainLoop{alone(kind, 1)});
  std::string told =
      fmt::format("{} {}{}", kind.strategy, kind.optimizer, kind.is_gpt2 ? " GPT-2" : "");
  for (const Leg& leg : legs) {
    told += " | " + leg.name();
    INFO(told);
    chain.run(leg);
  }
  INFO(told);
  chain.compare(tolerance_of(kind));
}

void play_drawn(Dice& dice, const World& world, const std::filesystem::path& root) {
  const Kind kind = drawn_kind(dice);
  std::vector<Leg> legs;
  int64_t done = 0;  // samples of this epoch
  const size_t count = 3 + static_cast<size_t>(dice.below(3));
  while (legs.size() < count) {
    const Leg leg = drawn_leg(dice, kind);
    if (done % leg.samples_per_step() != 0) continue;
    done = (done + leg.steps * leg.samples_per_step()) % samples;
    legs.push_back(leg);
  }
  play(kind, legs, world, root);
}

// Saves a position in the middle of the first epoch on these ranks.
void save_at(const std::filesystem::path& root, const World& world, const Leg& leg) {
  if (std::ranges::count(leg.ranks, world.rank) > 0) {
    Training training = spread({"fp32", "sgd"}, leg, world.group().subgroup(leg.ranks));
    training.steps(leg.steps);
    save_training(root, training.boosted, {.step = leg.steps});
  }
  world.group().barrier();
}

std::string refusal(const std::filesystem::path& root, Training& training) {
  try {
    resume_training(root, training.boosted, ignore_line);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("rank: chains of layouts" * doctest::skip()) {
  const World world = launch_from_env();
  const char* wanted = std::getenv("CHAINS");
  const auto count = wanted ? static_cast<unsigned>(std::atoi(wanted)) : 24;
  for (const unsigned chain : testing::draws(count)) {
    CAPTURE(chain);
    Dice dice{std::mt19937(chain)};
    play_drawn(dice, world, test_root() / std::to_string(chain));
  }
}
TEST_CASE("a training that goes from layout to layout is that of one process") {
  run_ranks_at_root("rank: chains of layouts", 4, {}, 600);
}

TEST_CASE("rank: cut and whole" * doctest::skip()) {
  const World world = launch_from_env();
  const std::vector<int> two = {2, 0}, all = {0, 1, 2, 3};
  const Leg single = {"single", {1}, 12, 2}, fsdp = {"fsdp", {0, 1, 2}, 4, 3};
  const auto cut = [](const std::vector<int>& ranks, const HybridParallelOptions& options) {
    Leg leg = {"hybrid", ranks, 0, 2};
    leg.options = options;
    leg.batch_size = 12 / leg.shares();
    return leg;
  };
  const std::vector<Leg> chains[] = {
      {cut(two, {.tp_size = 2}), single, cut(all, {.tp_size = 4})},
      {cut(two, {.pp_size = 2}), single, fsdp},
      {cut(all, {.tp_size = 2, .pp_size = 2, .pp_style = "zero_bubble"}),
       cut(all, {.pp_size = 2, .zero_stage = 1}),
       cut(two, {.sp_size = 2, .sequence_parallelism_mode = "ring_attn"}),
       cut(all, {.pp_size = 2, .sp_size = 2, .sequence_parallelism_mode = "all_to_all"}),
       cut(all, {.tp_size = 2, .zero_stage = 3})}};
  int chain = 0;
  for (const char* strategy : {"fp32", "bf16 masters", "fp16"})
    for (const std::vector<Leg>& legs : chains)
      play({strategy, "adamw", true}, legs, world, test_root() / std::to_string(chain++));
}
TEST_CASE("layers, stages and tokens that are cut become whole, and are cut in another way") {
  run_ranks_at_root("rank: cut and whole", 4);
}

TEST_CASE("rank: positions" * doctest::skip()) {
  const World world = launch_from_env();
  const Kind kind = {"fp32", "sgd"};
  save_at(test_root(), world, {"torch_ddp", {0, 1, 2, 3}, 3, 2});  // 24 of 72 samples are done
  if (world.rank == 0) {
    Training fits = alone(kind, 8);
    std::vector<std::string> lines;
    resume_training(test_root(), fits.boosted,
                    [&](const std::string& line) { lines.push_back(line); });
    CHECK(fits.boosted.dataloader.state() == LoaderState{0, 3});
    CHECK(lines ==
          std::vector<std::string>{"plugin: changed from torch_ddp to single; the new value counts",
                                   "number of ranks: changed from 4 to 1; the new value counts",
                                   "batch_size: changed from 3 to 8; the new value counts"});
    Training odd = alone(kind, 9);
    CHECK(refusal(test_root(), odd) ==
          (test_root() / "step-000000002").string() +
              ": 24 samples of the epoch are done, no whole number of steps; got batch_size 9 on 1 "
              "ranks, 9 samples a step, want batch_size 2, 3, 4, 6, 8 or 12 on 1 ranks, or a "
              "checkpoint from between two epochs");
    CHECK(odd.boosted.dataloader.state() == LoaderState{0, 0});
  }
  if (world.rank < 2) {
    const Group two = world.group().subgroup({0, 1});
    Training odd = spread(kind, {"zero 1", {0, 1}, 8, 1}, two);
    CHECK_THROWS_WITH_AS(resume_training(test_root(), odd.boosted, ignore_line),
                         Contains("got batch_size 8 on 2 ranks, 16 samples a step, want batch_size "
                                  "1, 2, 3, 4, 6 or 12 on 2 ranks, 1 or 3 ranks of batch_size 8, "
                                  "or a checkpoint from between two epochs"),
                         Error);
  }
}
TEST_CASE("a position in the data is one of every layout whose steps it is a whole number of") {
  run_ranks_at_root("rank: positions", 4);
}
