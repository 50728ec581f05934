// The example's handling of losses and weights that are not finite.
#include "booster/checkpoint/safetensors/safetensors.h"
#include "examples/training/non_finite.h"
#include "tests/examples/example.h"
#include "tests/occurrences.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;
using booster::testing::occurrences;

namespace {

// With this rate the first update makes the second loss non-finite.
const std::string ruin = "optimizer.lr=1e20 train.epochs=2 train.checkpoint_every=1 ";

bool all_finite(const std::filesystem::path& weights) {
  for (const auto& [name, tensor] : load_safetensors(weights))
    for (const float x : tensor.to_vector<float>())
      if (!std::isfinite(x)) return false;
  return true;
}

}  // namespace

TEST_CASE("rank: a loss" * doctest::skip()) {
  const World world = launch_from_env();
  example::LossWatch watch;
  CHECK_FALSE(watch.found());
  for (int step = 1; step <= 4; ++step) {
    watch.see(step, world.rank == 1 && step >= 3 ? INFINITY : step + 0.5);
    std::vector<int64_t> found = {watch.found()};
    world.group().all_reduce(found, CollectiveOp::max);
    CHECK((found[0] != 0) == (step >= 3));
    CHECK(watch.is_news(found[0] != 0) == (step == 3));
    if (step == 3)
      CHECK(watch.describe(world) ==
            "step 3: the loss of rank 1 is inf; the last finite one was 2.5, in step 2");
  }
}

TEST_CASE("all ranks name the one whose loss is not finite, once") {
  CHECK(failures(Ranks("rank: a loss", 3).wait()) == "");
}

TEST_CASE("a loss that is not finite ends the training and spares the last checkpoint") {
  const Example example;
  for (const char* before : {"", "run --nproc_per_node 2"}) {
    const std::string plugin =
        *before ? "booster.plugin=torch_ddp data.batch_size=2" : "booster.plugin=single";
    std::filesystem::remove_all(example.output());
    for (int run = 0; run < 2; ++run) {  // the second run resumes the first one's checkpoint
      const CommandResult result = example.run(ruin + plugin, before);
      CHECK_MESSAGE(result.code == 1, result.output);
      CHECK_MESSAGE(result.says("step 2: the loss"), result.output);
      CHECK_MESSAGE(result.says("The checkpoint of step 1 stays"), result.output);
      CHECK_MESSAGE(result.says("smaller optimizer.lr (now 1e+20)"), result.output);
      CHECK(result.says("the last finite one was") == (run == 0));
      CHECK(result.says("of rank 0 is") == (*before != 0));
      CHECK_FALSE(result.says("validation accuracy"));
    }
    CHECK(example.has_checkpoint(1));
    CHECK_FALSE(example.has_checkpoint(2));
    CHECK(all_finite(example.output() / "checkpoint/step-000000001/model.safetensors"));
  }
}

TEST_CASE("with on_nan warn the training goes on, told once, and never saves what is not finite") {
  const Example example;
  const CommandResult result = example.run(ruin + "train.on_nan=warn");
  CHECK_MESSAGE(result.code == 1, result.output);
  CHECK(occurrences(result.output, ": the loss is ") == 1);
  CHECK(result.says("step 6: the weights are not finite and were not saved"));
  CHECK(example.metric_lines().size() == 8);  // six steps, two validations
  CHECK(example.has_checkpoint(1));
  CHECK_FALSE(example.has_checkpoint(6));
}

TEST_CASE("a validation whose loss is not finite counts as well") {
  const Example example;
  const CommandResult result = example.run("optimizer.lr=1e20 train.max_steps=1");
  CHECK_MESSAGE(result.code == 1, result.output);
  CHECK_MESSAGE(result.says("the loss of the validation is"), result.output);
  CHECK(result.says("No checkpoint has been saved"));
  CHECK_FALSE(example.has_checkpoint(1));
}

TEST_CASE("steps that fp16 skips while the loss is finite are no reason to stop") {
  const Example example;
  const CommandResult result =
      example.run("booster.mixed_precision={\"name\":\"fp16\",\"init_scale\":1e30} train.epochs=2");
  CHECK_MESSAGE(result.code == 0, result.output);
  CHECK(example.metric_lines().at(1).at("skipped").get<int>() == 2);
  CHECK_FALSE(result.says("on_nan"));
}
