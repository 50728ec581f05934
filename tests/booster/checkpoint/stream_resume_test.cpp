// Trainings on a stream that are killed and resumed, on the same or another number of ranks: every
// sample still counts once in each epoch, and the same ranks get the same weights.
#include "tests/booster/checkpoint/shared_root.h"
#include "tests/booster/checkpoint/small_training.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <map>
#include <set>

using namespace booster;
using namespace booster::test;

namespace {

constexpr int64_t stream_samples = 45, stream_epochs = 2;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// A file of numbers, a line each. A sample's input holds its number.
std::shared_ptr<const StreamDataset> number_stream(const std::filesystem::path& root) {
  return text_lines({root / "numbers"},
                    [](const std::string& line, RandomStream&) {
                      const int64_t number = std::stoll(line);
                      return Sample(
                          full({small_features}, static_cast<double>(number) / stream_samples),
                          number % small_classes);
                    },
                    {.shards = 6});
}

int64_t number_in(const Tensor& input, int64_t row) {
  const auto all = input.to_vector<float>();
  return std::llround(all[static_cast<size_t>(row * small_features)] * stream_samples);
}

Choice<Plugin> plugin_of(const std::string& name) {
  if (name == "pipeline") return HybridParallelPlugin({.pp_size = 2});
  return name;
}

// Trains and saves after every second step. Writes the epoch, step and number of each sample to a
// log, and the weights at the end. Dies in step `last` if it is not 0.
void train_on_stream(const std::string& run, int64_t last) {
  const World world = launch_from_env();
  manual_seed(11);
  Booster booster({.plugin = plugin_of(variable("TEST_PLUGIN"))});
  Model model = Sequential{Linear(small_features, 16), GELU(), Linear(16, small_classes)};
  Optimizer adam = AdamW(model.parameters(), {.lr = 0.01});
  const DataLoader loader = booster.prepare_dataloader(
      number_stream(test_root()), {.batch_size = 4, .shuffle = true, .shuffle_buffer = 12});
  auto boosted = booster.boost(model, adam, CrossEntropyLoss(), loader, ConstantLR(adam));
  auto& [net, opt, loss_fn, data, lr] = boosted;
  std::ofstream log(test_root() / fmt::format("log-{}-{}", run, world.rank));
  int64_t step = 0, epoch = 0;
  if (const auto resumed = resume_training(test_root() / "saves", boosted, ignore_line)) {
    step = resumed->step;
    epoch = resumed->epoch;
  }
  log << step << std::endl;
  for (; epoch < stream_epochs; ++epoch)
    for (Batch& batch : data) {
      ++step;
      for (int64_t i = 0; i < data.counted(); ++i)
        if (booster.plugin().mesh().place("pipeline") == 0)
          log << epoch << ' ' << step << ' ' << number_in(batch.image, i) << std::endl;
      Batch* one = &batch;
      booster.execute_pipeline(one, net, loss_fn, opt);
      if (step == last) std::raise(SIGKILL);
      opt.step();
      opt.zero_grad();
      lr.step();
      if (step % 2 == 0) save_training(test_root() / "saves", boosted, {.step = step});
    }
  booster.save_model(net, test_root() / ("weights-" + run));
}

// Adds what ranks logged up to step `last` to the samples by epoch. Returns the step before.
int64_t read_logs(const TemporaryFolder& root, const std::string& run, int ranks, int64_t last,
                  std::map<int64_t, std::multiset<int64_t>>& seen) {
  int64_t before = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    std::ifstream log(root / fmt::format("log-{}-{}", run, rank));
    log >> before;
    REQUIRE(log.good());
    for (int64_t epoch, step, number; log >> epoch >> step >> number;)
      if (step <= last) seen[epoch].insert(number);
  }
  return before;
}

// Runs a training that dies in a step, and one that resumes it; checks the samples of both.
void kill_and_resume(const TemporaryFolder& root, const std::string& plugin, int ranks,
                     int resumed_ranks, int64_t last) {
  const auto environment = with_root(
      root, {{"TEST_PLUGIN", plugin}, {"TEST_LAST", std::to_string(last)}, {"TEST_RUN", "killed"}});
  for (const RankResult& killed : Ranks("rank: stream", ranks, environment).wait(400))
    CHECK(killed.status != 0);
  CHECK(failures(Ranks("rank: stream", resumed_ranks,
                       with_root(root, {{"TEST_PLUGIN", plugin}, {"TEST_RUN", "resumed"}}))
                     .wait(400)) == "");
  constexpr int64_t all_steps = 1000;
  std::map<int64_t, std::multiset<int64_t>> seen;
  const int64_t saved = read_logs(root, "resumed", resumed_ranks, all_steps, seen);
  CHECK(saved == (last - 1) / 2 * 2);
  read_logs(root, "killed", ranks, saved, seen);
  std::multiset<int64_t> all;
  for (int64_t number = 0; number < stream_samples; ++number) all.insert(number);
  for (int64_t epoch = 0; epoch < stream_epochs; ++epoch) CHECK(seen[epoch] == all);
}

TemporaryFolder& with_numbers(TemporaryFolder& root) {
  std::string text;
  for (int64_t number = 0; number < stream_samples; ++number) text += fmt::format("{}\n", number);
  root.write("numbers", text);
  return root;
}

}  // namespace

TEST_CASE("rank: stream" * doctest::skip()) {
  const std::string last = variable("TEST_LAST");
  train_on_stream(variable("TEST_RUN"), last.empty() ? 0 : std::stoll(last));
}
TEST_CASE("a killed training on a stream resumes, and its ranks get the same weights") {
  for (const char* plugin : {"torch_ddp", "low_level_zero", "fsdp"}) {
    CAPTURE(plugin);
    TemporaryFolder root, other;
    kill_and_resume(with_numbers(root), plugin, 2, 2, 8);
    with_numbers(other);
    CHECK(failures(Ranks("rank: stream", 2,
                         with_root(other, {{"TEST_PLUGIN", plugin}, {"TEST_RUN", "whole"}}))
                       .wait(400)) == "");
    CHECK(root.read("weights-resumed") == other.read("weights-whole"));
  }
}
TEST_CASE("a killed training on a stream resumes on another number of ranks") {
  TemporaryFolder fewer, more, stages;
  kill_and_resume(with_numbers(fewer), "torch_ddp", 3, 2, 4);
  kill_and_resume(with_numbers(more), "low_level_zero", 2, 3, 9);
  kill_and_resume(with_numbers(stages), "pipeline", 4, 2, 5);
}

namespace {

// Trains two epochs on samples that are the rows of a data set, or a stream of them.
std::vector<float> weights_after(bool streams, bool joins, int64_t samples) {
  const TensorDataset rows = small_data({.samples = samples});
  std::shared_ptr<const Dataset> data = std::make_shared<TensorDataset>(rows);
  if (streams)
    data = stream_of([=](int64_t, uint64_t) {
      return [=, i = int64_t{0}]() mutable -> std::optional<Sample> {
        RandomStream none(0, 0, 0);
        if (i == samples) return std::nullopt;
        return rows.load(i++, none);
      };
    });
  manual_seed(11);
  Booster booster({.plugin = TorchDDPPlugin({.join = joins})});
  Model model = Sequential{Linear(small_features, 16), GELU(), Linear(16, small_classes)};
  auto [net, opt, loss_fn] =
      booster.boost(model, AdamW(model.parameters(), {.lr = 0.01}), CrossEntropyLoss());
  DataLoader loader = booster.prepare_dataloader(data, {.batch_size = 4, .drop_last = !joins});
  for (int epoch = 0; epoch < 2; ++epoch)
    for (auto& [input, label] : loader) {
      booster.backward(loss_fn(net(input), label), opt);
      opt.step();
      opt.zero_grad();
    }
  std::vector<float> weights;
  for (const auto& [name, tensor] : model.state_dict())
    for (const float x : tensor.to_vector<float>()) weights.push_back(x);
  return weights;
}

}  // namespace

TEST_CASE("rank: stream of rows" * doctest::skip()) {
  launch_from_env();
  for (const bool joins : {false, true})
    for (const int64_t samples : {17, 24, 30})  // no repeated sample fills an indexed batch
      CHECK(weights_after(true, joins, samples) == weights_after(false, joins, samples));
}
TEST_CASE("ranks train on a stream of one shard as on the same samples with an index") {
  for (const int ranks : {1, 2, 3})
    CHECK(failures(Ranks("rank: stream of rows", ranks).wait(400)) == "");
}

TEST_CASE("a place in a stream of other shards is refused, and nothing changes") {
  TemporaryFolder root;
  with_numbers(root);
  const auto boosted_on = [&](Booster& booster, int64_t shards) {
    manual_seed(11);
    Model model = Sequential{Linear(small_features, small_classes)};
    Optimizer sgd = SGD(model.parameters(), {.lr = 0.1});
    const auto lines =
        text_lines({root / "numbers"},
                   [](const std::string& line, RandomStream&) {
                     return Sample(full({small_features}, 0.5), std::stoll(line) % small_classes);
                   },
                   {.shards = shards});
    return booster.boost(model, sgd, CrossEntropyLoss(),
                         booster.prepare_dataloader(lines, {.batch_size = 4}), ConstantLR(sgd));
  };
  Booster booster;
  Boosted first = boosted_on(booster, 3);
  first.dataloader.begin();  // takes a batch
  save_training(root / "saves", first, {.step = 1});
  Boosted other = boosted_on(booster, 2);
  const LoaderState before = other.dataloader.state();
  CHECK_THROWS_WITH_AS(resume_training(root / "saves", other, ignore_line),
                       doctest::Contains("another number of shards; got 2 now, want 3"), Error);
  CHECK(other.dataloader.state() == before);
  Boosted same = boosted_on(booster, 3);
  REQUIRE(resume_training(root / "saves", same, ignore_line));
  CHECK(same.dataloader.state() == first.dataloader.state());
}
