// Checkpoints of several ranks: one writes, one chooses, and all get the result.
#include "platform/files/atomic_file.h"
#include "platform/files/file.h"
#include "tests/booster/checkpoint/shared_root.h"
#include "tests/booster/checkpoint/small_training.h"
#include "tests/booster/temporary_folder.h"
#include "tests/file_faults.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>

using namespace booster;
using namespace booster::test;
using doctest::Contains;

namespace {

const SmallSettings replicated = {.plugin = "torch_ddp", .batch_size = 4};

std::string error_of_resume(const std::filesystem::path& root, SmallTraining& training) {
  try {
    resume_training(root, training.boosted, ignore_line);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("rank: slow save" * doctest::skip()) {
  const World world = launch_from_env();
  SmallTraining training(replicated);
  training.steps(2);
  if (world.rank == 0) delay_file_operations(500);
  const auto start = std::chrono::steady_clock::now();
  save_training(test_root(), training.boosted, {.step = 2});
  CHECK(std::chrono::steady_clock::now() - start > std::chrono::seconds(4));
  training.steps(2);
}
TEST_CASE("ranks wait for rank 0's save longer than for a rank that does not come") {
  run_ranks_at_root("rank: slow save", 2, {{"BOOSTER_TIMEOUT", "3"}});
}

TEST_CASE("rank: failed save" * doctest::skip()) {
  const World world = launch_from_env();
  SmallTraining training(replicated);
  training.steps(2);
  for (int64_t n = 1; n < 20; n += 4) {
    if (world.rank == 0) fail_file_operation(n, ENOSPC);
    CHECK_THROWS_WITH_AS(save_training(test_root(), training.boosted, {.step = 2}),
                         Contains("No space left on device (ENOSPC)"), Error);
    fail_file_operation(0, 0);
  }
  training.steps(2);
  save_training(test_root(), training.boosted, {.step = 4});
  SmallTraining second(replicated);
  CHECK(resume_training(test_root(), second.boosted, ignore_line)->step == 4);
  CHECK(second.weights() == training.weights());
  for (const auto& entry : std::filesystem::directory_iterator(test_root()))
    CHECK_FALSE(is_temporary_name(entry.path().filename().string()));
}
TEST_CASE("a save that fails on rank 0 fails on all, and all go on and save later") {
  run_ranks_at_root("rank: failed save", 2);
}

TEST_CASE("rank: checkpoints apart" * doctest::skip()) {
  const World world = launch_from_env();
  SmallTraining first(replicated);
  first.steps(2);
  save_training(test_root() / "a", first.boosted, {.step = 2});
  first.steps(1);
  save_training(test_root() / "b", first.boosted, {.step = 2});
  SmallTraining second(replicated);
  second.steps(1);
  const auto before = second.weights();
  const auto refused = [&](const std::filesystem::path& mine, const char* part) {
    const std::string error = error_of_resume(world.rank ? mine : test_root() / "a", second);
    CAPTURE(error);
    CHECK(error.find(part) != error.npos);
    CHECK((error.find("rank 1: ") != error.npos) == (world.rank == 0));
    CHECK(second.weights() == before);
  };
  refused(test_root() / "none", "cannot open");
  refused(test_root() / "b", "another checkpoint than that of rank 0");
  CHECK(error_of_resume(test_root() / "a", second) == "");
}
TEST_CASE("rank 0 chooses the checkpoint; a rank that cannot read it is an error on all") {
  run_ranks_at_root("rank: checkpoints apart", 2);
}

TEST_CASE("rank: settings apart" * doctest::skip()) {
  const World world = launch_from_env();
  SmallTraining first(replicated);
  first.steps(2);
  save_training(test_root(), first.boosted, {.step = 2});
  SmallSettings other = replicated;
  if (world.rank == 1) other.seed = 43;
  SmallTraining second(other);
  second.steps(1);
  const auto before = second.weights();
  const std::string error = error_of_resume(test_root(), second);
  CHECK(error.find("another seed; got 43 now, want 42") != error.npos);
  CHECK(second.weights() == before);
  // The choice fails on all ranks: no complete checkpoint is left.
  world.group().barrier();
  if (world.rank == 0) std::filesystem::resize_file(test_root() / "step-000000002/state.json", 3);
  const std::string broken = error_of_resume(test_root(), second);
  CHECK(broken.find("no whole checkpoint is left") != broken.npos);
}
TEST_CASE("a rank that was started with other settings stops all before anything changed") {
  run_ranks_at_root("rank: settings apart", 2);
}
