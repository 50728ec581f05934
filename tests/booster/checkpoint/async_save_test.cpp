// Asynchronous saves.
#include "booster/checkpoint/safetensors/safetensors.h"
#include "tests/booster/checkpoint/newest.h"
#include "tests/booster/checkpoint/shared_root.h"
#include "tests/booster/checkpoint/small_training.h"
#include "tests/booster/temporary_folder.h"
#include "tests/checkpoint_contents.h"
#include "tests/file_faults.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>

using namespace booster;
using namespace booster::test;
using doctest::Contains;

namespace {

const SmallSettings sharded = {.plugin = "low_level_zero", .batch_size = 4};

// Makes every file operation take this long during its lifetime.
struct SlowDisk {
  explicit SlowDisk(int milliseconds) { delay_file_operations(milliseconds); }
  ~SlowDisk() { delay_file_operations(0); }
};

std::string saved_bytes(const CheckpointContents& contents) {
  std::string all = contents.state.dump();
  for (const TensorMap* tensors : {&contents.model, &contents.optimizer, &contents.precision})
    for (const auto& [name, tensor] : *tensors)
      all += name + std::string(static_cast<const char*>(tensor.data()),
                                static_cast<size_t>(tensor.bytes()));
  return all;
}

}  // namespace

TEST_CASE("rank: trains on" * doctest::skip()) {
  SmallTraining training(sharded);
  training.steps(2);
  save_training(test_root() / "sync", training.boosted, {.step = 2});
  PendingSave saving;
  {
    const SlowDisk slow(60);
    saving = save_training_async(test_root() / "async", training.boosted, {.step = 2});
    CHECK_FALSE(saving.ready());
    for (int i = 0; i < 5; ++i) training.steps(1);  // these changes are not saved
  }
  saving.wait();
  CHECK(saving.ready());
  saving.wait();
  if (launch_from_env().rank == 0) {
    const bool same =
        saved_bytes(newest(test_root() / "async")) == saved_bytes(newest(test_root() / "sync"));
    CHECK(same);
  }
}
TEST_CASE("training goes on while a checkpoint is written, which is of the moment of the call") {
  run_ranks_at_root("rank: trains on", 2);
}

TEST_CASE("rank: fails later" * doctest::skip()) {
  const World world = launch_from_env();
  SmallTraining training(sharded);
  training.steps(2);
  const auto fail_next = [&] {
    if (world.rank == 0) fail_file_operation(9, ENOSPC);
  };
  fail_next();
  PendingSave saving = save_training_async(test_root(), training.boosted, {.step = 2});
  training.steps(1);
  CHECK_THROWS_WITH_AS(saving.wait(), Contains("No space left on device (ENOSPC)"), Error);
  fail_file_operation(0, 0);
  saving.wait();  // reports the failure once

  fail_next();
  saving = save_training_async(test_root(), training.boosted, {.step = 3});
  CHECK_THROWS_WITH_AS(save_training(test_root(), training.boosted, {.step = 3}),
                       Contains("No space left on device (ENOSPC)"), Error);
  fail_file_operation(0, 0);
  save_training(test_root(), training.boosted, {.step = 4});
  SmallTraining second(sharded);
  CHECK(resume_training(test_root(), second.boosted, ignore_line)->step == 4);
  CHECK(second.weights() == training.weights());
  const Progress not_in_json = {.step = 5, .extra = {{"x", NAN}}};
  CHECK_THROWS_WITH_AS(
      static_cast<void>(save_training_async(test_root(), training.boosted, not_in_json)),
      Contains("NaN"), Error);
}
TEST_CASE("what fails while training goes on is an error on all ranks, at wait or the next save") {
  run_ranks_at_root("rank: fails later", 2);
}

TEST_CASE("a save waits for the one before, and so do a resume and the end of a handle") {
  const TemporaryFolder root;
  SmallTraining training;
  training.steps(1);
  {
    const SlowDisk slow(60);
    PendingSave saving = save_training_async(root.path(), training.boosted, {.step = 1});
    saving = save_training_async(root.path(), training.boosted, {.step = 2});
    CHECK(newest(root.path()).step == 1);
    CHECK(resume_training(root.path(), training.boosted, ignore_line)->step == 2);
    saving = save_training_async(root.path(), training.boosted, {.step = 3});
  }
  CHECK(newest(root.path()).step == 3);
  const std::vector<std::string> kept = {"latest", "step-000000002", "step-000000003"};
  CHECK(root.entries() == kept.size());
}

// std::exit destroys no locals, so the handle and the training are never destroyed here; nor are
// they after main returns. Each save leaves more statics of libraries behind that an end may
// destroy before the last one is written.
TEST_CASE("rank: ends at once" * doctest::skip()) {
  static auto* const training = new SmallTraining(sharded);
  static auto* const saving = new PendingSave;
  const int saves = std::atoi(std::getenv("SAVES"));
  for (int step = 1; step <= saves; ++step) {
    training->steps(1);
    if (step == saves && launch_from_env().rank == 0) delay_file_operations(40);
    *saving = save_training_async(test_root(), training->boosted, {.step = step});
  }
  if (std::getenv("CALLS_EXIT")) std::exit(0);
}
TEST_CASE("a program that ends waits until its checkpoint is written") {
  for (const int ranks : {1, 2})
    for (const char* saves : {"1", "3"})
      for (const bool calls_exit : {true, false}) {
        CAPTURE(ranks);
        CAPTURE(saves);
        CAPTURE(calls_exit);
        const TemporaryFolder root;
        std::map<std::string, std::string> environment = {{"SAVES", saves}};
        if (calls_exit) environment["CALLS_EXIT"] = "1";
        const auto results =
            Ranks("rank: ends at once", ranks, with_root(root, environment)).wait(60);
        for (const auto& result : results) CHECK(result.status == 0);
        CHECK(newest(root.path()).step == std::atoi(saves));
      }
}

TEST_CASE("rank: killed while it writes" * doctest::skip()) {
  SmallTraining training;
  training.steps(1);
  save_training(test_root(), training.boosted, {.step = 1});
  training.steps(1);
  fail_file_operation(std::atoi(std::getenv("KILL_AT")), 0);
  PendingSave saving = save_training_async(test_root(), training.boosted, {.step = 2});
  while (!saving.ready()) training.steps(1);
}
TEST_CASE("a kill while training goes on leaves the old checkpoint or the new one, whole") {
  int killed = 0;
  for (int n = 1; n < 40; n += 3) {
    CAPTURE(n);
    const TemporaryFolder root;
    const auto results =
        Ranks("rank: killed while it writes", 1, with_root(root, {{"KILL_AT", std::to_string(n)}}))
            .wait(60);
    killed += WIFSIGNALED(results[0].status) && WTERMSIG(results[0].status) == SIGKILL;
    const CheckpointContents contents = newest(root.path());
    CHECK((contents.step == 1 || contents.step == 2));
    CHECK(contents.state.at("step") == contents.step);
  }
  CHECK(killed > 5);
}
