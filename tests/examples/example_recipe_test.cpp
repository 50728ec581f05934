// Options of an image training besides the model: augmentation, averages of weights, when to
// validate, what to keep and when to stop. Run as by a user.
#include "tests/examples/example.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

using namespace booster;

namespace {

constexpr int per_class = 16;  // 24 to train, an epoch of 6 steps; 8 to validate
const std::string model = "model.num_heads=2 model.depth=2 model.embed_dim=16 ";
const std::string constant = "lr_scheduler={\"name\":\"constant\"} train.log_every=1 ";
const std::string everything =
    model + constant +
    "data.mixup=0.8 data.cutmix=1 data.random_erasing=0.5 data.random_erasing_mode=pixel "
    "data.rand_augment=2 data.repeated_augmentation=2 train.label_smoothing=0.1 "
    "train.ema_decay=0.9 train.ema_warmup=true optimizer.layer_decay=0.7 "
    "train.validations_per_epoch=3 train.epochs=3 ";

// Returns the steps whose metrics have this name.
std::vector<int64_t> steps_with(const Example& example, const std::string& name) {
  std::vector<int64_t> steps;
  for (const auto& line : example.metric_lines())
    if (line.contains(name)) steps.push_back(line["step"]);
  return steps;
}

// Returns all metrics of a training except times, line by line.
std::vector<nlohmann::json> numbers_of(const Example& example) {
  auto lines = example.metric_lines();
  for (auto& line : lines)
    for (const char* time : {"images_per_s", "data_wait_s"}) line.erase(time);
  return lines;
}

std::vector<std::string> checkpoints_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  if (!std::filesystem::exists(folder)) return names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.is_directory() && !entry.is_symlink())
      names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace

TEST_CASE("a training with every augmentation and averages resumes to the bit, in any strategy") {
  for (const char* strategy : {"fp32", "bf16", "fp16_naive"}) {
    CAPTURE(strategy);
    const std::string sets = everything + "booster.mixed_precision=" + strategy + " ";
    const Example whole(per_class), parts(per_class);
    const CommandResult result = whole.run(sets + "train.max_steps=11");
    REQUIRE_MESSAGE(result.code == 0, result.output);
    CHECK_MESSAGE(result.says("of the averages"), result.output);
    // Cuts at a third of an epoch, and at other points.
    for (const char* steps : {"4", "7", "11"})
      REQUIRE(parts.run(sets + "train.max_steps=" + steps).code == 0);
    CHECK(parts.last_weights() == whole.last_weights());
    const auto want = numbers_of(whole), got = numbers_of(parts);
    for (const auto& line : want) CHECK_MESSAGE(std::ranges::count(got, line) == 1, line.dump());
  }
}

TEST_CASE("two ranks train with everything in every plugin, and agree when to stop") {
  for (const char* plugin :
       {"torch_ddp", "low_level_zero", "fsdp", "{\"name\":\"hybrid_parallel\",\"tp_size\":2}",
        "{\"name\":\"hybrid_parallel\",\"pp_size\":2,\"num_microbatches\":2}"}) {
    CAPTURE(plugin);
    const Example example(per_class);
    const std::string sets = everything + "train.early_stopping=2 train.keep_best=true " +
                             "train.early_stopping_min_delta=2 booster.mixed_precision=bf16 " +
                             "data.batch_size=2 booster.plugin=" + plugin;
    const CommandResult result = example.run(sets, "run --nproc_per_node 2");
    REQUIRE_MESSAGE(result.code == 0, result.output);
    CHECK_MESSAGE(result.says("stopped early: 2 validations without one better than ema_top1"),
                  result.output);
    CHECK(steps_with(example, "val_ema_top1").size() == 3);
    CHECK(checkpoints_in(example.output() / "best").size() == 1);
    const CommandResult again = example.run(sets, "run --nproc_per_node 2");
    CHECK_MESSAGE(again.code == 0, again.output);
    CHECK(again.says("stopped early"));
    CHECK(steps_with(example, "val_ema_top1").size() == 3);
  }
}

TEST_CASE("one rank and two have the same averages of the same training") {
  const std::string sets = model + constant +
                           "train.ema_decay=0.8 train.epochs=2 booster.mixed_precision=fp32 "
                           "data.workers=0 ";
  const Example alone(per_class);
  REQUIRE(alone.run(sets + "data.batch_size=4").code == 0);
  for (const char* plugin : {"torch_ddp", "low_level_zero", "fsdp"}) {
    CAPTURE(plugin);
    const Example two(per_class);
    const CommandResult result =
        two.run(sets + "data.batch_size=2 booster.plugin=" + plugin, "run --nproc_per_node 2");
    REQUIRE_MESSAGE(result.code == 0, result.output);
    const auto want = alone.metric_lines().back(), got = two.metric_lines().back();
    for (const char* name : {"val_loss", "val_ema_loss"})
      CHECK(got[name].get<double>() == doctest::Approx(want[name].get<double>()).epsilon(1e-4));
    CHECK(got["val_loss"] != got["val_ema_loss"]);
  }
}

TEST_CASE("mixup mixes in the chosen mode, a share of the batches, and until an epoch") {
  const auto losses = [&](const std::string& sets) {
    const Example example(per_class);
    const CommandResult result = example.run(model + constant + "train.epochs=2 " + sets);
    REQUIRE_MESSAGE(result.code == 0, result.output);
    std::vector<double> all;
    for (const auto& line : example.metric_lines())
      if (line.contains("loss")) all.push_back(line["loss"]);
    REQUIRE(all.size() == 12);
    return all;
  };
  const auto plain = losses(""), never = losses("data.mixup=0.8 data.mixup_prob=0");
  for (size_t i = 0; i < plain.size(); ++i)
    CHECK(never[i] == doctest::Approx(plain[i]).epsilon(1e-4));
  const auto batch = losses("data.mixup=0.8 data.mixup_mode=batch");
  const auto pair = losses("data.mixup=0.8 data.mixup_mode=pair");
  const auto elem = losses("data.mixup=0.8 data.mixup_mode=elem");
  CHECK(losses("data.mixup=0.8") == batch);
  CHECK(batch != plain);
  CHECK(pair != batch);
  CHECK(elem != batch);
  CHECK(elem != pair);
  const auto until = losses("data.mixup=0.8 data.mixup_off_epoch=1");
  const size_t epoch = 6;
  CHECK(std::equal(until.begin(), until.begin() + epoch, batch.begin()));
  CHECK_FALSE(std::equal(until.begin() + epoch, until.end(), batch.begin() + epoch));
  const CommandResult refused = Example(per_class).run("data.mixup=1 data.mixup_mode=elements");
  CHECK(refused.code == 2);
  CHECK_MESSAGE(refused.says("want one of batch, pair, elem"), refused.output);
}

TEST_CASE("rates by layer are not turned on or off on the way, and other ones are in force") {
  const std::string sets = model + constant + "optimizer.lr=0.001 ";
  const char *with = "optimizer.layer_decay=0.7 ", *without = "optimizer.layer_decay=1 ";
  for (const auto& [first, then] : {std::pair(with, without), std::pair(without, with)}) {
    const Example example(per_class);
    REQUIRE(example.run(sets + first + "train.max_steps=1").code == 0);
    const CommandResult refused = example.run(sets + then + "train.max_steps=2");
    CHECK(refused.code == 1);
    CHECK_MESSAGE(refused.says("was saved with another number of parameter groups; got "),
                  refused.output);
    CHECK(example.has_checkpoint(1));
    CHECK_FALSE(example.has_checkpoint(2));
  }
  const Example example(per_class);
  REQUIRE(example.run(sets + with + "train.max_steps=1").code == 0);
  const CommandResult other = example.run(sets + "optimizer.layer_decay=0.5 train.max_steps=2");
  CHECK_MESSAGE(other.code == 0, other.output);
  CHECK_MESSAGE(other.says("optimizer.lr of group 4: changed from 0.0007 to 0.0005; the new value "
                           "counts"),
                other.output);
}

TEST_CASE("validations come after equal parts of each epoch, and at the end") {
  const Example example(per_class);
  const CommandResult result =
      example.run(model + "train.epochs=2 train.validations_per_epoch=4 train.max_steps=11");
  REQUIRE_MESSAGE(result.code == 0, result.output);
  CHECK(steps_with(example, "val_top1") == std::vector<int64_t>{2, 3, 5, 6, 8, 9, 11});
  const CommandResult refused = Example(per_class).run(model + "train.validations_per_epoch=7");
  CHECK(refused.code == 2);
  CHECK(
      refused.says("train.validations_per_epoch: more than an epoch has steps; got 7, want at "
                   "most 6"));
}

TEST_CASE("the best training is kept beside the newest, and can be evaluated") {
  const Example example(per_class);
  const std::string sets = model + constant + "train.eval_metric=loss train.keep_best=true ";
  REQUIRE(example.run(sets + "train.epochs=6 optimizer.lr=0.002").code == 0);
  double best = 1e9;
  int64_t step = 0;
  for (const auto& line : example.metric_lines())
    if (line.contains("val_loss") && line["val_loss"] < best) {
      best = line["val_loss"];
      step = line["step"];
    }
  CHECK(checkpoints_in(example.output() / "best") ==
        std::vector<std::string>{fmt::format("step-{:09}", step)});
  const CommandResult evaluated =
      example.run(sets + "inference.evaluate=validation inference.checkpoint=best");
  CHECK_MESSAGE(evaluated.says(fmt::format("step-{:09}: 8 images", step)), evaluated.output);
  CHECK_MESSAGE(evaluated.says(fmt::format("loss {:.4f}", best)), evaluated.output);
}

TEST_CASE("a patient training stops once enough validations were no better") {
  const Example example(per_class);
  const CommandResult result = example.run(
      model + "optimizer.lr=0 train.epochs=20 train.early_stopping=3 train.eval_metric=loss");
  REQUIRE_MESSAGE(result.code == 0, result.output);
  CHECK_MESSAGE(result.says("stopped early: 3 validations without one better than loss"),
                result.output);
  CHECK(steps_with(example, "val_loss") == std::vector<int64_t>{6, 12, 18, 24});
}

TEST_CASE("checkpoints come by the clock too") {
  const Example example(per_class);
  const std::string sets = model + "train.epochs=1 train.keep_checkpoints=9 ";
  REQUIRE(example.run(sets + "train.checkpoint_minutes=0.0000001").code == 0);
  CHECK(checkpoints_in(example.output() / "checkpoint").size() == 6);
  const Example none(per_class);
  REQUIRE(none.run(sets + "train.checkpoint_minutes=1000").code == 0);
  CHECK(checkpoints_in(none.output() / "checkpoint").size() == 1);
}

TEST_CASE("a recipe that cannot be meant is told before anything is written") {
  for (const auto& [set, says] :
       {std::pair("data.rand_augment_magnitude=31",
                  "data.rand_augment_magnitude: no such step of strength; got 31, want at most 30"),
        std::pair("data.random_erasing=1.5", "data.random_erasing"),
        std::pair("data.random_erasing_mode=pixels", "did you mean pixel?"),
        std::pair("train.ema_decay=1", "train.ema_decay"),
        std::pair("optimizer.layer_decay=0", "optimizer.layer_decay"),
        std::pair("train.eval_metric=top2", "train.eval_metric")}) {
    const Example example;
    const CommandResult result = example.run(set);
    CHECK_MESSAGE(result.code == 2, result.output);
    CHECK_MESSAGE(result.says(says), result.output);
    CHECK(!std::filesystem::exists(example.output()));
  }
}

TEST_CASE("where layers have rates of their own metrics tell that of the head") {
  const Example example(per_class);
  const CommandResult result = example.run(
      model + constant + "optimizer.layer_decay=0.5 optimizer.lr=0.01 train.max_steps=1 ");
  REQUIRE_MESSAGE(result.code == 0, result.output);
  CHECK(steps_with(example, "lr") == std::vector<int64_t>{1});
  CHECK(example.metric_lines()[0]["lr"] == 0.01);
}
