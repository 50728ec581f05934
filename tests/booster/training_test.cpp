// The product as a product: every strategy on every plugin, saved, killed and resumed.
#include "booster/booster.h"
#include "core/nn/criterion.h"
#include "tests/booster/temporary_folder.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

using namespace booster;

namespace {

constexpr int64_t samples = 48, features = 6, classes = 4;
const char* const strategies[] = {"fp32", "fp16", "bf16", "fp8"};

TensorDataset dataset() {
  Generator generator(5);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < samples; ++i) labels.push_back(i * 7 % classes);
  return {uniform({samples, features}, -1, 1, {}, generator), from_vector(labels, {samples})};
}

struct Run {
  Booster booster;
  Boosted boosted;
};

Run make_run(const char* plugin, const char* strategy, int64_t batch_size, double dropout = 0.3) {
  manual_seed(11);
  Booster booster({.plugin = plugin, .mixed_precision = strategy});
  Model model = Sequential{Linear(features, 32), ReLU(), Dropout(dropout),
                           Linear(32, 32),       GELU(), Linear(32, classes)};
  Optimizer optimizer = AdamW(model.parameters(), {.lr = 0.01, .weight_decay = 0.1});
  LRScheduler scheduler =
      CosineAnnealingWarmupLR(optimizer, {.warmup_steps = 3, .total_steps = 20});
  auto loader = booster.prepare_dataloader(
      dataset(), {.batch_size = batch_size, .shuffle = true, .drop_last = true, .workers = 1});
  auto boosted = booster.boost(model, optimizer, CrossEntropyLoss(), loader, scheduler);
  return {std::move(booster), boosted};
}

// Trains for some steps, epoch after epoch; gives the losses.
std::vector<double> train(Run& run, int64_t steps) {
  auto& [net, opt, loss_fn, data, lr] = run.boosted;
  std::vector<double> losses;
  while (true)
    for (auto& [input, label] : data) {
      opt.zero_grad();
      const Tensor loss = loss_fn(net(input), label);
      run.booster.backward(loss, opt);
      opt.clip_grad_by_norm(1.0);
      const StepReport report = opt.step();
      lr.step(report);
      losses.push_back(loss.item());
      if (static_cast<int64_t>(losses.size()) == steps) return losses;
    }
}

std::vector<float> weights(const Run& run) {
  std::vector<float> all;
  for (const auto& [name, tensor] : run.boosted.model.unwrap().state_dict()) {
    const auto values = tensor.to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

void ignore(const std::string&) {}

void check_resume(const char* plugin, const char* strategy, const std::filesystem::path& root) {
  CAPTURE(strategy);
  Run whole = make_run(plugin, strategy, 8);
  std::vector<double> losses = train(whole, 15);
  Run first = make_run(plugin, strategy, 8);
  train(first, 8);  // in the middle of the second epoch
  save_training(root, first.boosted, {.step = 8, .epoch = 1});
  Run second = make_run(plugin, strategy, 8);
  manual_seed(12345);  // what a new process would have
  const auto progress = resume_training(root, second.boosted, ignore);
  REQUIRE(progress);
  CHECK(progress->step == 8);
  CHECK(progress->epoch == 1);
  const std::vector<double> rest = train(second, 7);
  CHECK(rest == std::vector<double>(losses.begin() + 8, losses.end()));
  CHECK(weights(second) == weights(whole));
}

}  // namespace

TEST_CASE("a resumed training continues bit for bit, in every precision, mid-epoch, with dropout") {
  for (const char* strategy : strategies) {
    const TemporaryFolder folder;
    check_resume("single", strategy, folder.path());
  }
}

TEST_CASE("rank: resume" * doctest::skip()) {
  for (const char* strategy : strategies)
    check_resume("torch_ddp", strategy, std::filesystem::path(std::getenv("TEST_ROOT")) / strategy);
}
TEST_CASE("two ranks resume bit for bit") {
  const TemporaryFolder folder;
  CHECK(failures(Ranks("rank: resume", 2, {{"TEST_ROOT", folder.path().string()}}).wait(120)) ==
        "");
}

TEST_CASE("rank: equivalence" * doctest::skip()) {
  for (const char* strategy : strategies) {
    CAPTURE(strategy);
    Run spread = make_run("torch_ddp", strategy, 4, 0);
    Run alone = make_run("single", strategy, 4 * spread.booster.plugin().layout().data, 0);
    train(spread, 10);
    train(alone, 10);
    const auto a = weights(spread), b = weights(alone);
    double largest = 0;
    for (size_t i = 0; i < a.size(); ++i)
      largest = std::max(largest, std::abs(double{a[i]} - b[i]));
    // Adam turns rounding of tiny gradients into steps of lr; 16-bit gradients round more.
    CHECK(largest < (std::string(strategy) == "fp32" ? 1e-5 : 2e-2));
  }
}
TEST_CASE("every strategy gives the same weights on two ranks as in one process") {
  CHECK(failures(Ranks("rank: equivalence", 2).wait(120)) == "");
}

TEST_CASE("rank: fp8 scales" * doctest::skip()) {
  Run run = make_run("torch_ddp", "fp8", 4, 0);
  train(run, 4);
  const Session& session = run.boosted.model.session();
  const StateDict state = session.precision->state_tensors();
  CHECK(state.size() == 8);
  for (const auto& [name, tensor] : state) {
    CAPTURE(name);
    Tensor most = untracked::cast(tensor, DType::f32);
    session.plugin->agree(most);
    CHECK(most.to_vector<float>() == tensor.to_vector<float>());
    if (name.ends_with(".scale")) CHECK(tensor.to_vector<float>()[0] != 1);
  }
}
TEST_CASE("two ranks on different data share every fp8 scale and its history") {
  CHECK(failures(Ranks("rank: fp8 scales", 2).wait(120)) == "");
}

TEST_CASE("a skipped step changes neither weights, moments nor the schedule") {
  Run run = make_run("single", "fp16", 8);
  auto& [net, opt, loss_fn, data, lr] = run.boosted;
  train(run, 3);
  const auto before = weights(run);
  const auto state = opt.unwrap().state_dict();
  std::vector<std::vector<float>> moments;
  for (const auto& [name, tensor] : state.tensors) moments.push_back(tensor.to_vector<float>());
  opt.zero_grad();
  const Tensor loss = loss_fn(net(ones({8, features})), zeros({8}, {.dtype = DType::i64}));
  run.booster.backward(loss * INFINITY, opt);
  const StepReport report = opt.step();
  const int64_t steps = lr.step_count();
  lr.step(report);
  CHECK(report.skipped());
  CHECK(report.loss_scale() == 65536);
  CHECK(lr.step_count() == steps);
  CHECK(weights(run) == before);
  CHECK(opt.unwrap().state_dict().steps == state.steps);
  size_t i = 0;
  for (const auto& [name, tensor] : opt.unwrap().state_dict().tensors)
    CHECK(tensor.to_vector<float>() == moments[i++]);
}

TEST_CASE("clipping uses true gradients in every strategy") {
  double norms[3];
  for (int i = 0; i < 3; ++i) {
    Run run = make_run("single", strategies[i], 8, 0);
    auto& [net, opt, loss_fn, data, lr] = run.boosted;
    run.booster.backward(loss_fn(net(ones({8, features})), zeros({8}, {.dtype = DType::i64})), opt);
    norms[i] = opt.clip_grad_by_norm(0.01);
    CHECK(opt.step().grad_norm() == norms[i]);
  }
  CHECK(std::abs(norms[1] / norms[0] - 1) < 0.01);
  CHECK(std::abs(norms[2] / norms[0] - 1) < 0.05);
}

TEST_CASE("a checkpoint of another model, precision or rank count changes nothing") {
  const TemporaryFolder folder;
  Run run = make_run("single", "fp32", 8);
  train(run, 2);
  save_training(folder.path(), run.boosted, {.step = 2});
  Run other_precision = make_run("single", "bf16", 8);
  const auto before = weights(other_precision);
  CHECK_THROWS_WITH_AS(resume_training(folder.path(), other_precision.boosted, ignore),
                       doctest::Contains("was trained in fp32"), Error);
  CHECK(weights(other_precision) == before);

  manual_seed(1);
  Booster booster;
  Model model = models::mlp({features, 32, 31, classes});
  Optimizer optimizer = AdamW(model.parameters(), {.lr = 0.01});
  auto boosted = booster.boost(model, optimizer, CrossEntropyLoss(), run.boosted.dataloader,
                               ConstantLR(optimizer));
  const auto first = model.parameters()[0].tensor.to_vector<float>();
  CHECK_THROWS_AS(resume_training(folder.path(), boosted, ignore), Error);
  CHECK(model.parameters()[0].tensor.to_vector<float>() == first);
}

TEST_CASE("resuming from an empty folder says that there is nothing") {
  const TemporaryFolder folder;
  Run run = make_run("single", "fp32", 8);
  CHECK_FALSE(resume_training(folder.path(), run.boosted, ignore));
}

TEST_CASE("wrong names are errors with the nearest one") {
  CHECK_THROWS_WITH_AS(Booster({.mixed_precision = "bf61"}),
                       doctest::Contains("did you mean bf16?"), Error);
  CHECK_THROWS_WITH_AS(Booster({.plugin = "torch_dpp"}),
                       doctest::Contains("did you mean torch_ddp?"), Error);
}

TEST_CASE("strategy objects are chosen like names") {
  Booster booster(
      {.plugin = SinglePlugin(), .mixed_precision = FP16TorchMixedPrecision({.init_scale = 1024})});
  Model model = models::mlp({features, 8, classes});
  Optimizer optimizer = SGD(model.parameters(), {.lr = 0.1});
  auto [net, opt] = booster.boost(model, optimizer);
  booster.backward(cross_entropy(net(ones({2, features})), zeros({2}, {.dtype = DType::i64})), opt);
  CHECK(opt.step().loss_scale() == 1024);
}
