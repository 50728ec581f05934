// Every combination: every strategy on every plugin, saved, killed and resumed.
#include "booster/booster.h"
#include "booster/config/registry.h"
#include "booster/training/session.h"
#include "core/nn/criterion.h"
#include "core/tensor/host_reads.h"
#include "mixed_precision/strategies/fp16_torch.h"
#include "tests/booster/temporary_folder.h"
#include "tests/capture_part.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <map>

using namespace booster;

namespace {

constexpr int64_t samples = 48, inputs = 6, targets = 4;
const char* const trained_strategies[] = {
    "fp32",         "fp16",         "bf16",       "fp16_apex O0", "fp16_apex O1",
    "fp16_apex O2", "fp16_apex O3", "fp16_naive", "bf16 cast",    "bf16 kahan",
    "bf16 noise",   "fp16_paddle",  "paddle OD",  "paddle O2",    "paddle O2 bf16",
    "paddle pure",  "paddle fleet", "fp8",        "fp64"};

bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

TensorDataset dataset() {
  Generator generator(5);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < samples; ++i) labels.push_back(i * 7 % targets);
  return {uniform({samples, inputs}, -1, 1, {}, generator), from_vector(labels, {samples})};
}

// Returns a registered strategy, or one with options.
Choice<Precision> precision(const std::string& strategy) {
  const auto bf16 = BF16MixedPrecision;
  const auto paddle = FP16PaddleMixedPrecision;
  static const std::map<std::string, Choice<Precision>> with_options = {
      {"fp8 by rank", FP8MixedPrecision({.reduce_amax = false})},
      {"bf16 cast", bf16({.style = "cast"})},
      {"bf16 kahan", bf16({.style = "cast", .master_weights = false, .update = "kahan"})},
      {"bf16 noise", bf16({.style = "cast", .master_weights = false, .update = "stochastic"})},
      {"paddle OD", paddle({.level = "OD"})},
      {"paddle O2", paddle({.level = "O2", .master_grad = true})},
      {"paddle O2 bf16", paddle({.level = "O2", .dtype = "bfloat16"})},
      {"paddle pure", paddle({.use_pure_fp16 = true, .use_fp16_guard = false})},
      {"paddle fleet", paddle({.amp_configs = FleetAmpConfigs{.use_pure_fp16 = true}})}};
  if (const auto found = with_options.find(strategy); found != with_options.end())
    return found->second;
  const std::string apex = "fp16_apex ";
  if (!strategy.starts_with(apex)) return strategy;
  return FP16ApexMixedPrecision({.opt_level = strategy.substr(apex.size()), .verbosity = 0});
}

struct Run {
  Booster booster;
  Boosted boosted;
};

Run make_run(const Choice<Plugin>& plugin, const char* strategy, int64_t batch_size,
             double dropout = 0.3) {
  manual_seed(11);
  Booster booster({.plugin = plugin, .mixed_precision = precision(strategy)});
  Model model = Sequential{Linear(inputs, 32), ReLU(), Dropout(dropout),
                           Linear(32, 32),     GELU(), Linear(32, targets)};
  Optimizer optimizer = AdamW(model.parameters(), {.lr = 0.01, .weight_decay = 0.1});
  LRScheduler scheduler =
      CosineAnnealingWarmupLR(optimizer, {.warmup_steps = 3, .total_steps = 20});
  auto loader = booster.prepare_dataloader(
      dataset(), {.batch_size = batch_size, .shuffle = true, .drop_last = true, .workers = 1});
  auto boosted = booster.boost(model, optimizer, CrossEntropyLoss(), loader, scheduler);
  return {std::move(booster), boosted};
}

// Trains for some steps, epoch after epoch, and returns the losses.
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

void check_resume(const Choice<Plugin>& plugin, const char* strategy,
                  const std::filesystem::path& root) {
  CAPTURE(strategy);
  Run whole = make_run(plugin, strategy, 8);
  std::vector<double> losses = train(whole, 15);
  Run first = make_run(plugin, strategy, 8);
  train(first, 8);  // in the middle of the second epoch
  save_training(root, first.boosted, {.step = 8});
  Run second = make_run(plugin, strategy, 8);
  manual_seed(12345);  // the seed of a new process
  const auto progress = resume_training(root, second.boosted, ignore);
  REQUIRE(progress);
  CHECK(progress->step == 8);
  CHECK(progress->epoch == 8 / second.boosted.dataloader.size());
  const std::vector<double> rest = train(second, 7);
  CHECK(rest == std::vector<double>(losses.begin() + 8, losses.end()));
  CHECK(weights(second) == weights(whole));
}

}  // namespace

TEST_CASE("a resumed training continues bit for bit, in every precision, mid-epoch, with dropout") {
  for (const char* strategy : trained_strategies) {
    const TemporaryFolder folder;
    check_resume("single", strategy, folder.path());
  }
}

TEST_CASE("rank: resume" * doctest::skip()) {
  for (const char* strategy : trained_strategies)
    check_resume("torch_ddp", strategy, std::filesystem::path(std::getenv("TEST_ROOT")) / strategy);
}
TEST_CASE("two ranks resume bit for bit") {
  const TemporaryFolder folder;
  CHECK(failures(Ranks("rank: resume", 2, {{"TEST_ROOT", folder.path().string()}}).wait(120)) ==
        "");
}

TEST_CASE("rank: equivalence" * doctest::skip()) {
  for (const char* strategy : trained_strategies) {
    CAPTURE(strategy);
    Run spread = make_run("torch_ddp", strategy, 4, 0);
    Run alone = make_run(SinglePlugin({.on_every_rank = true}), strategy,
                         4 * spread.booster.plugin().layout().data, 0);
    train(spread, 10);
    train(alone, 10);
    const auto a = weights(spread), b = weights(alone);
    double largest = 0;
    for (size_t i = 0; i < a.size(); ++i)
      largest = std::max(largest, std::abs(double{a[i]} - b[i]));
    // Adam turns rounding of tiny gradients into steps of size lr; 16-bit gradients round more.
    const bool in_f32 = std::string(strategy) == "fp32" || std::string(strategy) == "fp16_apex O0";
    const bool no_masters = has(strategy, "kahan") || has(strategy, "noise");
    CHECK(largest < (in_f32 ? 1e-5 : no_masters ? 4e-2 : 2e-2));
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
  CHECK(state.size() == 12);  // scale, history, its cursor and amax of three tensors
  for (const auto& [name, tensor] : state) {
    CAPTURE_PART(name);
    Tensor most = untracked::cast(tensor, DType::f32);
    session.plugin->agree(most, Among::same_layers);
    CHECK(most.to_vector<float>() == tensor.to_vector<float>());
    if (name.ends_with(".scale")) CHECK(tensor.to_vector<float>()[0] != 1);
  }
}
TEST_CASE("two ranks on different data share every fp8 scale and its history") {
  CHECK(failures(Ranks("rank: fp8 scales", 2).wait(120)) == "");
}

// Ranks see different data, so each has its own scales.
TEST_CASE("rank: fp8 scales of its own" * doctest::skip()) {
  const World world = launch_from_env();
  const std::filesystem::path root = std::getenv("TEST_ROOT");
  const auto scales = [](const Run& run) {
    std::vector<float> all;
    for (const auto& [name, tensor] : run.boosted.model.session().precision->state_tensors())
      for (const float value : tensor.to_vector<float>()) all.push_back(value);
    return all;
  };
  Run first = make_run("torch_ddp", "fp8 by rank", 4);
  Run second = make_run("torch_ddp", "fp8 by rank", 4);
  Run common = make_run("torch_ddp", "fp8", 4);
  train(first, 3);
  save_training(root, first.boosted, {.step = 3});
  REQUIRE(resume_training(root, second.boosted, ignore));
  CHECK(scales(second) == scales(first));
  std::vector<float> of_rank_0 = scales(first);
  world.group().broadcast(of_rank_0);
  if (world.rank > 0) CHECK(scales(first) != of_rank_0);
  REQUIRE(resume_training(root, common.boosted, ignore));  // takes rank 0's scales
  CHECK(scales(common) == of_rank_0);
  save_training(root, common.boosted, {.step = 4});
  REQUIRE(resume_training(root, second.boosted, ignore));  // takes the shared scales
  CHECK(scales(second) == of_rank_0);
}
TEST_CASE("fp8 scales that ranks do not share are each rank's own after a resume") {
  const TemporaryFolder folder;
  CHECK(failures(Ranks("rank: fp8 scales of its own", 3, {{"TEST_ROOT", folder.path().string()}})
                     .wait(120)) == "");
}

TEST_CASE("with masters a training in f16 stays close to one in f32") {
  Run whole = make_run("single", "fp32", 8, 0);
  const std::vector<double> want = train(whole, 30);
  for (const char* strategy : {"fp16_apex O1", "fp16_apex O2", "fp16_naive"}) {
    CAPTURE(strategy);
    Run run = make_run("single", strategy, 8, 0);
    CHECK(train(run, 30).back() == doctest::Approx(want.back()).epsilon(5e-3));
  }
}

// Rank 1's loss is infinite in step 2: no rank takes that step, and all scales stay equal.
TEST_CASE("rank: overflow on one rank" * doctest::skip()) {
  const World world = launch_from_env();
  for (const std::string strategy : trained_strategies) {
    CAPTURE(strategy);
    Run run = make_run("torch_ddp", strategy.c_str(), 4, 0);
    auto& [net, opt, loss_fn, data, lr] = run.boosted;
    for (int step = 0; step < 4; ++step) {
      opt.zero_grad();
      const bool bad = world.rank == 1 && step == 2;
      const Tensor x = full({4, inputs}, 0.1 * (world.rank + 1));
      const Tensor loss = loss_fn(net(x), zeros({4}, {.dtype = DType::i64}));
      run.booster.backward(bad ? loss * INFINITY : loss, opt);
      const auto before = weights(run);
      const StepReport report = opt.step();
      const bool dynamic = run.boosted.model.session().precision->state().size() > 0 &&
                           strategy != "fp16_apex O0" && strategy != "fp16_apex O3";
      if (dynamic) CHECK(report.skipped() == (step == 2));
      if (dynamic && step == 2) CHECK(weights(run) == before);
      std::vector<double> scale = {report.loss_scale()}, largest = scale;
      world.group().all_reduce(largest, CollectiveOp::max);
      CHECK(scale == largest);
    }
  }
}
TEST_CASE("an overflow on one of two or four ranks skips the same step everywhere") {
  CHECK(failures(Ranks("rank: overflow on one rank", 2).wait(120)) == "");
  CHECK(failures(Ranks("rank: overflow on one rank", 4).wait(120)) == "");
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
  const Tensor loss = loss_fn(net(ones({8, inputs})), zeros({8}, {.dtype = DType::i64}));
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
  double in_f32 = 0;
  for (const std::string strategy : trained_strategies) {
    CAPTURE(strategy);
    Run run = make_run("single", strategy.c_str(), 8, 0);
    auto& [net, opt, loss_fn, data, lr] = run.boosted;
    run.booster.backward(loss_fn(net(ones({8, inputs})), zeros({8}, {.dtype = DType::i64})), opt);
    const double norm = opt.clip_grad_by_norm(0.01);
    CHECK(opt.step().grad_norm() == norm);
    if (strategy == "fp32") in_f32 = norm;
    const bool coarse = has(strategy, "bf16") || strategy == "fp8";
    CHECK(std::abs(norm / in_f32 - 1) < (coarse ? 0.1 : 0.01));
  }
}

TEST_CASE("clipping by value bounds true gradients in every strategy") {
  for (const std::string strategy : trained_strategies) {
    CAPTURE(strategy);
    Run run = make_run("single", strategy.c_str(), 8, 0);
    auto& [net, opt, loss_fn, data, lr] = run.boosted;
    run.booster.backward(loss_fn(net(ones({8, inputs})), zeros({8}, {.dtype = DType::i64})), opt);
    opt.clip_grad_by_value(1e-3);
    double largest = 0;
    for (const auto& [name, parameter] : opt.unwrap().parameters_with_grad())
      largest = std::max(largest, amax(abs(parameter.grad())).item());
    CHECK(largest == doctest::Approx(1e-3).epsilon(1e-3));
    CHECK_FALSE(opt.step().skipped());
  }
}

TEST_CASE("a pair that does not work together is refused with reason and alternative") {
  struct Split : Plugin {
    Split() { zero_stage_ = 3; }
    const char* name() const override { return "split"; }
  };
  struct Whole : Precision {
    const char* name() const override { return "whole"; }
    Interaction interaction(const Layout& layout) const override {
      if (layout.zero_stage == 0) return {};
      return {.supported = false, .reason = "it wants whole layers", .instead = "fp16_naive"};
    }
  };
  CHECK_THROWS_WITH_AS(
      Booster({.plugin = Split(), .mixed_precision = Whole()}),
      "booster: whole does not work with split: it wants whole layers; use fp16_naive", Error);
  for (const auto& strategy : precision_registry().names())
    CHECK_NOTHROW(Booster({.plugin = Split(), .mixed_precision = strategy}));
}

TEST_CASE("a checkpoint of another model, precision or rank count changes nothing") {
  const TemporaryFolder folder;
  Run run = make_run("single", "fp32", 8);
  train(run, 2);
  save_training(folder.path(), run.boosted, {.step = 2});
  Run other_precision = make_run("single", "bf16", 8);
  const auto before = weights(other_precision);
  CHECK_THROWS_WITH_AS(resume_training(folder.path(), other_precision.boosted, ignore),
                       doctest::Contains("another precision; got bf16 now, want fp32"), Error);
  CHECK(weights(other_precision) == before);

  manual_seed(1);
  Booster booster;
  Model model = models::mlp({inputs, 32, 31, targets});
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
  Model model = models::mlp({inputs, 8, targets});
  Optimizer optimizer = SGD(model.parameters(), {.lr = 0.1});
  auto [net, opt] = booster.boost(model, optimizer);
  booster.backward(cross_entropy(net(ones({2, inputs})), zeros({2}, {.dtype = DType::i64})), opt);
  CHECK(opt.step().loss_scale() == 1024);
}

TEST_CASE("a step reads nothing back from the device, whether it is taken, skipped or grows") {
  for (const auto& strategy : precision_registry().names()) {
    CAPTURE(strategy);
    Run run = make_run("single", strategy.c_str(), 8);
    auto& [net, opt, loss_fn, data, lr] = run.boosted;
    if (strategy == "fp16") {
      Precision& precision = *net.session().precision;
      dynamic_cast<FP16Torch&>(precision).set_growth_interval(2);
    }
    int64_t step = 0;
    for (auto& [input, label] : data) {
      opt.zero_grad();
      run.booster.backward(loss_fn(net(input), label) * (step == 1 ? INFINITY : 1.0), opt);
      const int64_t before = host_reads();
      const StepReport report = opt.step();
      CHECK(host_reads() == before);
      if (strategy == "fp16") CHECK(report.skipped() == (step == 1));
      ++step;
    }
  }
}
