// Settings that a program may change between saving and resuming, and where the data continues.
#include "booster/training/session.h"
#include "core/tensor/memory/allocator.h"
#include "tests/booster/checkpoint/small_training.h"
#include "tests/booster/temporary_folder.h"
#include "tests/checkpoint_contents.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace booster;
using namespace booster::test;
using doctest::Contains;

namespace {

using Lines = std::vector<std::string>;

// Trains 6 steps, with 4 per epoch, and saves.
void save_first(const std::filesystem::path& root, const SmallSettings& settings = {}) {
  SmallTraining first(settings);
  first.steps(6);
  save_training(root, first.boosted, {.step = 6, .settings = {{"train.clip", 1.0}}});
}

struct Outcome {
  SmallTraining training;
  Lines lines;
  Resumed resumed;
};

Outcome resume_as(const std::filesystem::path& root, const SmallSettings& settings) {
  Outcome outcome{SmallTraining(settings), {}, {}};
  const auto resumed = resume_training(
      root, outcome.training.boosted,
      [&](const std::string& line) { outcome.lines.push_back(line); }, {{"train.clip", 1.0}});
  REQUIRE(resumed);
  outcome.resumed = *resumed;
  return outcome;
}

void refuses(const std::filesystem::path& root, const SmallSettings& settings, const char* part) {
  SmallTraining training(settings);
  training.steps(1);
  const auto before = training.weights();
  CHECK_THROWS_WITH_AS(resume_training(root, training.boosted, ignore_line), Contains(part), Error);
  CHECK(training.weights() == before);
}

// Runs a program's own loop over epochs, as in training_checkpoint.h. Stops, like the program,
// after step `last`. Returns the step count of the whole training.
int64_t run_epochs(SmallTraining& training, const std::filesystem::path& root, int64_t epochs,
                   bool saves_in_loop, int64_t last = 1000) {
  int64_t step = 0, epoch = 0;
  if (const auto resumed = resume_training(root, training.boosted, ignore_line)) {
    step = resumed->step;
    epoch = resumed->epoch;
  }
  for (; epoch < epochs; ++epoch) {
    for (auto& batch : training.boosted.dataloader) {
      training.step(batch);
      ++step;
      if (saves_in_loop) save_training(root, training.boosted, {.step = step});
      if (step == last) return step;
    }
    if (!saves_in_loop) save_training(root, training.boosted, {.step = step});
  }
  return step;
}

}  // namespace

TEST_CASE("options changed since the save are in force after it, and told by name") {
  const TemporaryFolder root;
  save_first(root.path());
  const Outcome changed =
      resume_as(root.path(), {.lr = 0.5, .weight_decay = 0.2, .total_steps = 40});
  const Optimizer optimizer = changed.training.boosted.optimizer.unwrap();
  CHECK(optimizer.options(0).at("weight_decay") == 0.2);
  CHECK(optimizer.options(1).at("weight_decay") == 0.2);
  // The new schedule's rate at step 6, from the new base. The second group keeps its own base rate.
  SmallTraining fresh({.lr = 0.5, .total_steps = 40});
  for (int i = 0; i < 6; ++i) fresh.boosted.lr_scheduler.step();
  CHECK(optimizer.lr(0) == fresh.boosted.lr_scheduler.lr(0));
  CHECK(optimizer.lr(1) == fresh.boosted.lr_scheduler.lr(1));
  CHECK(changed.lines ==
        Lines{"optimizer.lr of group 0: changed from 0.01 to 0.5; the new value counts",
              "optimizer.weight_decay of group 0: changed from 0.1 to 0.2; the new value counts",
              "optimizer.weight_decay of group 1: changed from 0.1 to 0.2; the new value counts",
              "lr_scheduler.total_steps: changed from 20 to 40; the new value counts"});
  CHECK(changed.resumed.changes.size() == 4);
  CHECK(changed.resumed.changes[0].name == "optimizer.lr of group 0");
}

TEST_CASE("what was changed once is what the next resume compares with") {
  const TemporaryFolder root;
  save_first(root.path());
  Outcome changed = resume_as(root.path(), {.lr = 0.5});
  save_training(root.path(), changed.training.boosted,
                {.step = 7, .settings = {{"train.clip", 1.0}}});
  CHECK(resume_as(root.path(), {.lr = 0.5}).lines.empty());
  CHECK(resume_as(root.path(), {}).lines ==
        Lines{"optimizer.lr of group 0: changed from 0.5 to 0.01; the new value counts"});
}

TEST_CASE("a schedule that moved and an option that was set are state, not changes") {
  const TemporaryFolder root;
  SmallTraining first;
  first.steps(6);
  first.boosted.optimizer.unwrap().set_option(1, "eps", 1e-3);
  save_training(root.path(), first.boosted, {.step = 6, .settings = {{"train.clip", 1.0}}});
  const Outcome same = resume_as(root.path(), {});
  CHECK(same.lines.empty());
  const Optimizer optimizer = same.training.boosted.optimizer.unwrap();
  CHECK(optimizer.options(1) == first.boosted.optimizer.unwrap().options(1));
  CHECK(optimizer.lr(0) == first.boosted.optimizer.lr(0));
}

TEST_CASE("a strategy's options and the program's own settings are told as well") {
  const TemporaryFolder root;
  save_first(root.path(), {.strategy = "fp16"});
  SmallTraining training({.strategy = "fp16", .init_scale = 1024});
  Lines lines;
  resume_training(root.path(), training.boosted,
                  [&](const std::string& line) { lines.push_back(line); },
                  {{"train.clip", 2.0}, {"train.more", "x"}});
  CHECK(lines == Lines{"precision.scale: changed from 65536 to 1024; the new value counts",
                       "train.clip: changed from 1.0 to 2.0; the new value counts",
                       "train.more: changed from nothing to x; the new value counts"});
  CHECK(training.boosted.model.session().precision->state().at("scale") == 1024);
}

TEST_CASE("what would move the position, or another training, is refused by name") {
  const TemporaryFolder root;
  save_first(root.path());
  refuses(root.path(), {.batch_size = 3}, "16 samples of the epoch are done, no whole number");
  refuses(root.path(), {.seed = 43}, "another seed; got 43 now, want 42 to resume");
  refuses(root.path(), {.shuffle = false}, "another shuffle; got false now, want true");
  refuses(root.path(), {.optimizer = "sgd"}, "another optimizer; got sgd now, want adamw");
  refuses(root.path(), {.strategy = "bf16"}, "another precision; got bf16 now, want fp32");
  refuses(root.path(), {.samples = 40}, "other data; got 40 samples (tensors, fingerprint ");
  refuses(root.path(), {.first_label = 1}, "other data; got 32 samples (tensors, fingerprint ");
}

TEST_CASE("an option that wants other state is refused by name") {
  const TemporaryFolder root;
  save_first(root.path(), {.optimizer = "sgd", .momentum = 0.9});
  refuses(root.path(), {.optimizer = "sgd"},
          "sgd: momentum cannot change between saving and resuming");
  const Outcome other = resume_as(root.path(), {.optimizer = "sgd", .momentum = 0.5});
  CHECK(other.training.boosted.optimizer.unwrap().options().at("momentum") == 0.5);
}

TEST_CASE("a finished epoch resumes at the start of the next, saved in the loop or behind it") {
  const SmallSettings settings;  // 4 steps in an epoch
  for (const bool in_loop : {false, true}) {
    CAPTURE(in_loop);
    const TemporaryFolder whole_root;
    SmallTraining whole(settings);
    CHECK(run_epochs(whole, whole_root.path(), 3, in_loop) == 12);
    for (int64_t last = 1; last <= 12; ++last) {
      CAPTURE(last);
      const TemporaryFolder root;
      SmallTraining first(settings);
      run_epochs(first, root.path(), 3, in_loop, last);
      SmallTraining second(settings);
      // The random state of a new process, which a checkpoint replaces. Before the first save the
      // training starts over with its own seed.
      if (latest_checkpoint(root.path(), ignore_line)) manual_seed(12345);
      CHECK(run_epochs(second, root.path(), 3, in_loop) == 12);
      CHECK(second.weights() == whole.weights());
    }
  }
}

TEST_CASE("saved behind a loop, the next loop is a whole epoch; saved in its last round, none") {
  for (const bool in_loop : {false, true}) {
    const TemporaryFolder root;
    SmallTraining first, second;
    int64_t step = 0;
    for (auto& batch : first.boosted.dataloader) {
      first.step(batch);
      if (++step == 4 && in_loop) save_training(root.path(), first.boosted, {.step = step});
    }
    if (!in_loop) save_training(root.path(), first.boosted, {.step = step});
    const auto resumed = resume_training(root.path(), second.boosted, ignore_line);
    CHECK(resumed->epoch == (in_loop ? 0 : 1));
    int64_t batches = 0;
    for ([[maybe_unused]] auto& batch : second.boosted.dataloader) ++batches;
    CHECK(batches == (in_loop ? 0 : 4));
  }
}

TEST_CASE("a resume takes the memory of what it loads once, and gives the old state's back") {
  const TemporaryFolder root;
  const auto make = [] {
    manual_seed(3);
    Booster booster;
    Model model = Sequential{Linear(small_features, 2000), GELU(), Linear(2000, 500), GELU(),
                             Linear(500, small_classes)};
    Optimizer optimizer = AdamW(model.parameters(), {.lr = 0.01});
    DataLoader loader(small_data({}), {.batch_size = 8, .workers = 0});
    return booster.boost(model, optimizer, CrossEntropyLoss(), loader, ConstantLR(optimizer));
  };
  Booster booster;
  Boosted boosted = make();
  for (auto& batch : boosted.dataloader) {
    boosted.optimizer.zero_grad();
    booster.backward(boosted.criterion(boosted.model(batch.image), batch.label), boosted.optimizer);
    boosted.optimizer.step();
    break;
  }
  boosted.optimizer.zero_grad();
  save_training(root.path(), boosted, {.step = 1});
  int64_t state = 0;
  const CheckpointContents contents = load_checkpoint(*latest_checkpoint(root.path(), ignore_line));
  for (const auto* tensors : {&contents.model, &contents.optimizer})
    for (const auto& [name, tensor] : *tensors) state += tensor.bytes();
  CHECK(state > 12'000'000);
  reset_peak_bytes();
  const int64_t before = allocator_stats().live_bytes;
  resume_training(root.path(), boosted, ignore_line);
  CHECK(allocator_stats().peak_bytes - before < state * 11 / 10);
  CHECK(allocator_stats().live_bytes - before < state / 10);
}

TEST_CASE("the files of a data set tell it, wherever its folder lies") {
  const TemporaryFolder folder;
  for (const char* root : {"a", "b", "c"})
    for (const char* name : {"cat/1.jpg", "cat/2.jpg", "dog/1.jpg"})
      folder.write(std::string(root) + "/" + name, "");
  folder.write("c/dog/2.jpg", "");
  const auto identity = [&](const char* root) { return ImageFolder(folder / root).identity(); };
  CHECK(identity("a") == identity("b"));
  CHECK(ImageFolder((folder / "a").string() + "/").identity() == identity("b"));
  CHECK(identity("a") != identity("c"));
  std::filesystem::rename(folder / "b/cat/2.jpg", folder / "b/cat/3.jpg");
  CHECK(identity("a") != identity("b"));
  CHECK(identity("a").classes == 2);
  CHECK(ImageFolder(folder / "a").subset({0, 2}).identity() !=
        ImageFolder(folder / "a").subset({0, 1}).identity());
}

// Fine-tuning: weights from elsewhere, a frozen layer that no step changes, and a checkpoint.
TEST_CASE("weights that were loaded after boost, frozen ones too, are what a checkpoint holds") {
  const std::pair<const char*, Choice<Precision>> strategies[] = {
      {"bf16 cast", BF16MixedPrecision({.style = "cast"})},
      {"fp16_naive", "fp16_naive"},
      {"apex O2", FP16ApexMixedPrecision({.opt_level = "O2", .verbosity = 0})},
      {"paddle O2", FP16PaddleMixedPrecision({.level = "O2"})},
      {"fp32", "fp32"}};
  for (const auto& [name, strategy] : strategies) {
    CAPTURE(std::string(name));
    const TemporaryFolder root;
    const auto training = [&] {
      return SmallTraining(Booster({.plugin = "single", .mixed_precision = strategy}), {});
    };
    SmallTraining other = training();
    other.steps(6);
    other.booster.save_model(other.boosted.model, root / "model");

    SmallTraining tuned = training();
    tuned.steps(1);
    tuned.booster.load_model(tuned.boosted.model, root / "model");
    REQUIRE(tuned.weights() == other.weights());
    for (int64_t steps = 1; steps < 4; ++steps) {
      save_training(root / "training", tuned.boosted, {.step = steps});
      SmallTraining resumed = training();
      REQUIRE(resume_training(root / "training", resumed.boosted, ignore_line));
      CHECK(resumed.weights() == tuned.weights());
      for (auto& [name, parameter] : tuned.boosted.model.unwrap().parameters())
        if (name.starts_with("0.")) parameter.requires_grad_(false);
      tuned.steps(1);
    }
  }
}

TEST_CASE("a parameter that moved to another group trains with that one's options, and is told") {
  const TemporaryFolder root;
  save_first(root.path());
  const Outcome moved = resume_as(root.path(), {.first_group = 3});
  CHECK(moved.lines ==
        Lines{"optimizer.group of 3.weight: changed from 1 to 0; the new value counts"});
  const OptimizerState state = moved.training.boosted.optimizer.unwrap().state_dict();
  CHECK(state.groups[0].parameters == Lines{"0.weight", "0.bias", "3.weight"});
  CHECK(state.steps.at("3.weight") == 6);
  CHECK(resume_as(root.path(), {}).lines.empty());
}

TEST_CASE("a scheduled group that joined late is resumed bit for bit, and may change its rate") {
  const TemporaryFolder root;
  SmallTraining whole({.is_late = true});
  whole.steps(4);
  whole.add_group();
  whole.steps(4);
  save_training(root.path(), whole.boosted, {.step = 8});
  // Returns the second group's rates in four more steps.
  const auto go_on = [](SmallTraining& training) {
    std::vector<double> rates;
    for (int i = 0; i < 4; ++i) {
      training.steps(1);
      rates.push_back(training.boosted.optimizer.lr(1));
    }
    return rates;
  };
  const auto resume_with = [&](double lr, SmallTraining& training) {
    Lines lines;
    training.add_group(lr);
    REQUIRE(resume_training(root.path(), training.boosted,
                            [&](const std::string& line) { lines.push_back(line); }));
    return lines;
  };
  const std::vector<double> rates = go_on(whole);
  SmallTraining same({.is_late = true}), other({.is_late = true});
  CHECK(resume_with(0.02, same).empty());
  CHECK(go_on(same) == rates);
  CHECK(same.weights() == whole.weights());
  CHECK(resume_with(0.04, other) ==
        Lines{"optimizer.lr of group 1: changed from 0.02 to 0.04; the new value counts"});
  const std::vector<double> changed = go_on(other);
  for (size_t i = 0; i < rates.size(); ++i) CHECK(changed[i] == doctest::Approx(2 * rates[i]));
  CHECK(other.boosted.optimizer.lr(0) == whole.boosted.optimizer.lr(0));
  SmallTraining without({.is_late = true});
  CHECK_THROWS_WITH_AS(resume_training(root.path(), without.boosted, ignore_line),
                       Contains("was saved with another number of parameter groups; got 1 now, "
                                "want 2 to resume"),
                       Error);
}
