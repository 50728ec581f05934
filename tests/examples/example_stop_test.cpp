// Stop signals work at any point of the example, and lose nothing.
#include "tests/examples/example.h"

#include <doctest/doctest.h>

#include <random>

using namespace booster;

namespace {
constexpr int stopped = 128 + 15;
const std::string two_ranks = "run --nproc_per_node 2";
}  // namespace

TEST_CASE("a signal in the validation saves and ends, and the next run validates") {
  for (const bool several : {false, true}) {
    const Example example(300);
    const std::string sets =
        "data.validation_fraction=0.9 train.epochs=1 train.max_steps=1 model.img_size=96 "
        "booster.plugin=" + std::string(several ? "torch_ddp" : "single");
    const std::string command = example.command(sets, several ? two_ranks : "");
    const CommandResult first = example.run_and("step 1/1", "sleep 0.2; kill -TERM $pid", command);
    CHECK_MESSAGE(first.code == stopped, first.output);
    CHECK_MESSAGE(first.says("stopped by signal 15 after step 1;"), first.output);
    CHECK_FALSE(first.says("validation accuracy"));
    CHECK(example.has_checkpoint(1));
    const CommandResult second = run_command(command);
    CHECK_MESSAGE(second.code == 0, second.output);
    CHECK(second.says("resumed from step 1 of 1"));
    CHECK(second.says("epoch 0: validation accuracy"));
  }
}

TEST_CASE("a validation that was stopped between two epochs costs no epoch") {
  const Example example(300);
  const std::string sets =
      "data.validation_fraction=0.9 train.epochs=2 model.img_size=96 data.batch_size=20 "
      "train.checkpoint_every=3";
  const CommandResult first =
      example.run_and("step 3/6", "sleep 0.2; kill -TERM $pid", example.command(sets));
  CHECK_MESSAGE(first.says("stopped by signal 15 after step 3;"), first.output);
  const CommandResult second = example.run(sets);
  CHECK_MESSAGE(second.code == 0, second.output);
  CHECK(second.says("epoch 0: validation accuracy"));
  CHECK(second.says("epoch 1: validation accuracy"));
  CHECK(second.says("after 6 steps"));
}

// The checkpoint has all validated steps, and the epoch count continues.
TEST_CASE("a training that was stopped right behind a validation counts its epochs on") {
  const Example example(300);
  const std::string sets =
      "data.validation_fraction=0.9 train.epochs=2 model.img_size=32 data.batch_size=20";
  const CommandResult first = example.run_and("epoch 0: validation accuracy", "kill -TERM $pid",
                                              example.command(sets));
  const CommandResult second = example.run(sets);
  CHECK_MESSAGE(second.code == 0, second.output);
  CHECK_MESSAGE(second.output.find("epoch 0: validation") == std::string::npos, first.output);
  CHECK(second.says("epoch 1: validation accuracy"));
  for (const auto& line : example.metric_lines()) {
    CAPTURE(line.dump());
    if (line.contains("loss")) CHECK(line["epoch"] == (line["step"].get<int>() - 1) / 3);
  }
}

TEST_CASE("a checkpoint of another model of the same tensors is refused, other rates are told") {
  const Example example;
  const std::string sets = "train.epochs=1 train.max_steps=1 ";
  CHECK(example.run(sets).code == 0);
  const std::string weights = example.last_weights();
  const CommandResult heads = example.run("train.epochs=1 train.max_steps=2 model.num_heads=1");
  CHECK_MESSAGE(heads.code == 1, heads.output);
  CHECK(heads.says("was saved with another model.num_heads; got 1 now, want "));
  CHECK(example.last_weights() == weights);
  const CommandResult rates = example.run("train.epochs=1 train.max_steps=2 model.drop_rate=0.25");
  CHECK_MESSAGE(rates.code == 0, rates.output);
  CHECK(rates.says("model.drop_rate"));
}

TEST_CASE("what a program prints goes into no file, even if it was started without its own") {
  const Example example;
  const CommandResult closed = run_command(
      "{ ( " + example.command("train.epochs=3 booster.plugin=torch_ddp",
                               "run --nproc_per_node 2") +
      " ) 2>/dev/null <&- >&-; }");
  CHECK_MESSAGE(closed.code == 0, closed.output);
  CHECK(example.metric_lines().size() >= 2);
  for (const auto& line : example.metric_lines()) CHECK(line.contains("step"));
}

TEST_CASE("a signal while data is waited for ends before the batch is there") {
  const Example example;
  // Large images are slow to decode.
  const std::string jpeg = Example::make_jpeg(7000, 7000, 100);
  for (const char* name : {"dark", "light"})
    for (const auto& entry : std::filesystem::directory_iterator(example.image(name)))
      std::ofstream(entry.path(), std::ios::binary) << jpeg;
  const std::string command =
      example.command("data.workers=1 data.batch_size=12 data.prefetch=1 train.epochs=1");
  const CommandResult result =
      example.run_and("parameters; fp32", "sleep 0.2; kill -TERM $pid", command);
  CHECK_MESSAGE(result.code == stopped, result.output);
  CHECK_MESSAGE(result.says("stopped by signal 15 after step 0;"), result.output);
  CHECK(example.has_checkpoint(0));
}

// Also with several batches per step, whose dropout draws random numbers.
TEST_CASE("trainings that are stopped at any time, and go on, end in the same weights") {
  std::minstd_rand random(5);
  const std::string jpeg = Example::make_jpeg(2400, 2400, 100);
  for (const std::string ranks : {"", "run --nproc_per_node 2"}) {
    std::string weights;
    for (const int stops : {0, 4}) {
      const Example example(14);
      for (const auto& entry : std::filesystem::directory_iterator(example.image("dark")))
        std::ofstream(entry.path(), std::ios::binary) << jpeg;
      const std::string command = example.command(
          "data.workers=1 data.batch_size=2 data.prefetch=1 train.epochs=2 train.accumulate=3 "
          "model.drop_rate=0.3 model.drop_path_rate=0.2 "
          "booster.plugin=" + std::string(ranks.empty() ? "single" : "torch_ddp"),
          ranks);
      std::string story;
      for (int i = 0; i < stops; ++i) {
        const std::string delay = fmt::format("0.{:02}", random() % 60);
        story += "after " + delay + " s: " +
                 example.run_and("parameters; fp32", "sleep " + delay + "; kill -TERM $pid",
                                 command).output;
      }
      const CommandResult last = run_command(command);
      CHECK_MESSAGE(last.code == 0, last.output);
      const auto found = example.last_weights();
      CHECK(!found.empty());
      if (stops == 0) weights = found;
      else CHECK_MESSAGE(found == weights, story);
    }
  }
}
