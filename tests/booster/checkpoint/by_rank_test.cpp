// Each rank's own state in a checkpoint (random streams, unshared scales), and its use with another
// number of ranks. Also how much of a state each rank holds at most.
#include "booster/checkpoint/training/random_streams.h"
#include "booster/training/session.h"
#include "tests/booster/checkpoint/shared_root.h"
#include "tests/booster/checkpoint/small_training.h"
#include "tests/booster/temporary_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

using namespace booster;
using namespace booster::test;

namespace {

std::vector<RandomState> seeds(std::initializer_list<uint64_t> all) {
  std::vector<RandomState> states;
  for (const uint64_t seed : all) states.push_back({seed, 10 * seed});
  return states;
}

SmallTraining training_on(const Group& group, const Choice<Precision>& precision = "fp32") {
  SmallSettings settings;
  settings.batch_size = 8 / group.size();
  return {Booster({.plugin = TorchDDPPlugin({}, group), .mixed_precision = precision}), settings};
}

SmallTraining fp8_training(const Group& group, bool by_rank) {
  return training_on(group, FP8MixedPrecision({.reduce_amax = !by_rank}));
}

std::vector<float> scales(const SmallTraining& training) {
  std::vector<float> all;
  for (const auto& [name, tensor] :
       training.boosted.model.session().precision->state_tensors())
    for (const float value : tensor.to_vector<float>()) all.push_back(value);
  return all;
}

}  // namespace

TEST_CASE("ranks that were there go on with their streams; new ones draw what nobody has") {
  const auto saved = seeds({5, 6});
  CHECK(streams_to_resume(saved, seeds({1, 2})) == saved);
  CHECK(streams_to_resume(saved, seeds({1})) == seeds({5}));
  const auto more = streams_to_resume(saved, seeds({1, 2, 3, 4}));
  CHECK(more[0] == saved[0]);
  CHECK(more[1] == saved[1]);
  std::set<uint64_t> apart;
  for (const RandomState& stream : more) apart.insert(stream.seed);
  CHECK(apart.size() == 4);
  CHECK(streams_to_resume(saved, seeds({1, 2, 3, 4})) == more);
  // A rank that left and returned does not repeat its earlier draws.
  auto later = saved;
  later[0].offset += 1;
  CHECK(streams_to_resume(later, seeds({1, 2, 3, 4}))[3].seed != more[3].seed);
  // Ranks that draw in step continue in step.
  const auto alike = streams_to_resume(saved, seeds({1, 1, 1, 1}));
  CHECK(alike[2] == saved[0]);
  CHECK(alike[3] == saved[0]);
  CHECK(alike[1] == saved[1]);
}

TEST_CASE("rank: streams" * doctest::skip()) {
  const World world = launch_from_env();
  const auto stream = [] { return default_generator().state(); };
  const auto train = [&](const Group& group, const std::filesystem::path& root) {
    SmallTraining training = training_on(group);
    manual_seed(100 + static_cast<uint64_t>(group.rank()));
    resume_training(root, training.boosted, ignore_line);
    const RandomState at = stream();
    training.steps(1);
    save_training(root, training.boosted, {.step = 1});
    return at;
  };
  const auto root = test_root();
  train(world.group(), root);
  const RandomState saved = stream();
  if (world.rank < 2) CHECK(train(world.group().subgroup({0, 1}), root) == saved);
  const RandomState in_two = stream();
  world.group().barrier();
  const RandomState again = train(world.group(), root);
  if (world.rank < 2) CHECK(again == in_two);
  else CHECK(again.seed != 100 + static_cast<uint64_t>(world.rank));
}
TEST_CASE("random streams follow their ranks from 4 to 2 to 4") {
  run_ranks_at_root("rank: streams", 4);
}

TEST_CASE("rank: scales" * doctest::skip()) {
  const World world = launch_from_env();
  if (world.rank < 2) {
    SmallTraining first = fp8_training(world.group().subgroup({0, 1}), true);
    first.steps(2);
    save_training(test_root(), first.boosted, {.step = 2});
    const auto mine = scales(first);
    auto of_rank_0 = mine;
    world.group().subgroup({0, 1}).broadcast(of_rank_0);
    CHECK((world.rank == 0) == (mine == of_rank_0));
    std::ofstream(test_root() / ("scales-" + std::to_string(world.rank)))
        .write(reinterpret_cast<const char*>(mine.data()),
               static_cast<std::streamsize>(mine.size() * sizeof(float)));
  }
  world.group().barrier();
  const auto saved_by = [&](int rank) {
    std::ifstream file(test_root() / ("scales-" + std::to_string(rank)), std::ios::binary);
    std::vector<float> all(std::filesystem::file_size(test_root() / "scales-0") / sizeof(float));
    file.read(reinterpret_cast<char*>(all.data()),
              static_cast<std::streamsize>(all.size() * sizeof(float)));
    return all;
  };
  std::vector<std::string> lines;
  const auto keep = [&](const std::string& line) { lines.push_back(line); };
  SmallTraining four = fp8_training(world.group(), true);
  REQUIRE(resume_training(test_root(), four.boosted, keep));
  CHECK(scales(four) == saved_by(world.rank < 2 ? world.rank : 0));
  const std::string change = "precision: numbers by rank: changed from true to false; the new ";
  const auto is_told = [&] {
    return std::ranges::any_of(lines,
                               [&](const std::string& line) { return line.starts_with(change); });
  };
  CHECK_FALSE(is_told());
  SmallTraining common = fp8_training(world.group(), false);
  REQUIRE(resume_training(test_root(), common.boosted, keep));
  CHECK(scales(common) == saved_by(0));
  CHECK(is_told() == (world.rank == 0));
}
TEST_CASE("scales of each rank's own: new ranks take rank 0's, and sharing them is told") {
  run_ranks_at_root("rank: scales", 4);
}

TEST_CASE("rank: memory" * doctest::skip()) {
  const World world = launch_from_env();
  manual_seed(3);
  const auto boosted = [&] {
    Booster booster({.plugin = LowLevelZeroPlugin({}, world.group())});
    Model model = Sequential{Linear(small_features, 1000), GELU(), Linear(1000, 500), GELU(),
                             Linear(500, 500), GELU(), Linear(500, small_classes)};
    Optimizer optimizer = AdamW(model.parameters(), {.lr = 0.01});
    auto loader = booster.prepare_dataloader(small_data({}), {.batch_size = 8, .workers = 0});
    auto all = booster.boost(model, optimizer, CrossEntropyLoss(), loader, ConstantLR(optimizer));
    for (auto& batch : all.dataloader) {
      all.optimizer.zero_grad();
      booster.backward(all.criterion(all.model(batch.image), batch.label), all.optimizer);
      all.optimizer.step();
      break;
    }
    all.optimizer.zero_grad();
    return all;
  }();
  constexpr int64_t largest = 500'000 * sizeof(float);
  constexpr int64_t state = 2 * 768'000 * int64_t{sizeof(float)};  // AdamW's state of all ranks
  const auto needed = [](auto&& work) {
    reset_peak_bytes();
    const int64_t before = allocator_stats().live_bytes;
    work();
    return allocator_stats().peak_bytes - before;
  };
  auto training = boosted;
  const int64_t to_save = needed([&] {
    save_training(test_root(), training, {.step = 1}, {.size_per_shard = 0.5});
  });
  CAPTURE(world.rank);
  // Rank 0 holds a file's pending tensors and the arriving one; other ranks send what they have.
  CHECK(to_save <= (world.rank == 0 ? 2 * largest + (1 << 20) : 200'000));
  const int64_t to_resume =
      needed([&] { REQUIRE(resume_training(test_root(), training, ignore_line)); });
  CHECK(to_resume < state / 2 + state / 4 + largest + 200'000);  // the model, its part, one file
}
TEST_CASE("saving takes the memory of a file on rank 0 and none on the others") {
  run_ranks_at_root("rank: memory", 4);
}
