// loss_mean = "rows": a step takes the gradients of one mean over all rows that count, for any
// ranks, batches and micro-batches.
#include "booster/booster.h"
#include "booster/training/session.h"
#include "tests/error_of.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <random>

using namespace booster;
using namespace booster::testing;

namespace {

constexpr int64_t row_width = 8, class_count = 5, no_label = -100;

Model label_model() {
  manual_seed(5);
  return Sequential({Linear(row_width, 16), Tanh(), Linear(16, class_count)});
}

// The batches of a step on each data rank.
struct JoinedStep {
  std::vector<std::vector<Batch>> batches;  // [rank][i]
  Batch joined() const {
    std::vector<Tensor> images, labels;
    for (const auto& of_rank : batches)
      for (const Batch& one : of_rank) {
        images.push_back(one.image);
        labels.push_back(one.label);
      }
    return {cat(images, 0), cat(labels, 0)};
  }
};

// Returns a step in which few labels count: on some ranks none, on rank 0 at least one.
JoinedStep drawn_step(std::mt19937& random, int ranks, bool even_rows) {
  JoinedStep step;
  const auto parts = 1 + random() % 3;
  const int64_t even = 4 + static_cast<int64_t>(random() % 3);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Batch> own;
    for (size_t i = 0; i < parts; ++i) {
      const int64_t rows = even_rows ? even : 4 + static_cast<int64_t>(random() % 4);
      const uint32_t counted = random() % 4;
      std::vector<int64_t> labels;
      for (int64_t row = 0; row < rows; ++row)
        labels.push_back(random() % 4 < counted ? static_cast<int64_t>(random() % class_count)
                                                : no_label);
      if (rank == 0 && i == 0) labels[0] = 1;
      Generator generator(random());
      own.push_back(
          {uniform({rows, row_width}, -1, 1, {}, generator), from_vector(labels, {rows})});
    }
    step.batches.push_back(std::move(own));
  }
  return step;
}

struct Spreading {
  const char* name;
  Choice<Plugin> plugin;
  const char* precision = "fp32";
  double tolerance = 2e-5;
};

std::vector<Spreading> spreadings(int ranks) {
  const auto hybrid = [](HybridParallelOptions options) {
    options.tensor_plan = {{"0", {.style = SplitStyle::column}}, {"2", {.style = SplitStyle::row}}};
    return Choice<Plugin>(HybridParallelPlugin(options, launch_from_env().group()));
  };
  if (ranks == 4)
    return {
        {"stages", hybrid({.pp_size = 2, .num_microbatches = 2})},
        {"zero bubble", hybrid({.pp_size = 2, .pp_style = "zero_bubble", .num_microbatches = 3})},
        {"cut layers", hybrid({.tp_size = 2})},
        {"cut layers, zero 2", hybrid({.tp_size = 2, .zero_stage = 2}), "fp16", 4e-3}};
  if (ranks == 1) return {{"single", SinglePlugin()}};
  return {{"torch_ddp", TorchDDPPlugin()},
          {"torch_ddp, fp16", TorchDDPPlugin(), "fp16", 4e-3},
          {"torch_ddp, apex", TorchDDPPlugin(), "fp16_apex", 4e-3},
          {"torch_ddp, paddle", TorchDDPPlugin(), "fp16_paddle", 4e-3},
          {"torch_ddp, naive", TorchDDPPlugin(), "fp16_naive", 8e-3},
          {"torch_ddp, bf16", TorchDDPPlugin(), "bf16", 3e-2},
          {"low_level_zero", LowLevelZeroPlugin({.stage = 2})},
          {"low_level_zero, fp16", LowLevelZeroPlugin(), "fp16", 4e-3},
          {"fsdp", FsdpPlugin()},
          {"fsdp, fp16", FsdpPlugin(), "fp16", 4e-3},
          {"stages", hybrid({.pp_size = 2, .num_microbatches = 4})},
          {"cut layers", hybrid({.tp_size = 2})}};
}

// Checks that the steps are the same as in one process.
void check_joined_steps(const Spreading& spreading, uint32_t seed) {
  INFO(spreading.name, ", seed ", seed);
  std::mt19937 random(seed);  // the same on all ranks
  Tensor weight;
  if (random() % 2 == 0) weight = from_vector(std::vector<float>{1, 0.5, 2, 1, 3}, {class_count});
  const CrossEntropyLoss loss(
      {.weight = weight, .label_smoothing = random() % 2 == 0 ? 0.1 : 0, .ignore_index = no_label});
  Booster spread(
      {.plugin = spreading.plugin, .mixed_precision = spreading.precision, .loss_mean = "rows"});
  const Mesh mesh = spread.plugin().mesh();
  const bool by_pipeline = mesh.size("pipeline") > 1;
  const Model parts = label_model(), whole = label_model();
  auto [net, optimizer, loss_fn] = spread.boost(parts, SGD(parts.parameters(), {.lr = 0.5}), loss);
  SGD alone(whole.parameters(), {.lr = 0.5});
  for (int round = 0; round < 4; ++round) {
    const JoinedStep step = drawn_step(random, mesh.size("data"), by_pipeline);
    const auto& own = step.batches[static_cast<size_t>(mesh.place("data"))];
    double told = 0;
    for (size_t i = 0; i < own.size(); ++i) {
      std::unique_ptr<NoSyncGuard> local;
      if (i + 1 < own.size()) local.reset(new NoSyncGuard(spread.no_sync(net, optimizer)));
      if (by_pipeline) {
        const Batch* one = &own[i];
        told = spread.execute_pipeline(one, net, loss_fn, optimizer).item();
      } else {
        const Tensor one = loss_fn(net(own[i].image), own[i].label);
        told = one.item();
        spread.backward(one, optimizer);
      }
    }
    const double mine = loss(whole(own.back().image), own.back().label).item();
    CHECK(std::abs(told - (std::isnan(mine) ? 0 : mine)) < 100 * spreading.tolerance);
    const Batch all = step.joined();
    alone.zero_grad();
    backward(loss(whole(all.image), all.label));
    const bool clips = random() % 2 == 0;
    if (clips) optimizer.clip_grad_by_norm(0.1);
    if (clips) alone.clip_grad_by_norm(0.1);
    const StepReport report = optimizer.step();
    if (report.skipped()) {
      optimizer.zero_grad();
      continue;
    }
    alone.step();
    optimizer.zero_grad();
    const WholeParameters numbers(net);
    const StateDict want = whole.state_dict();
    StateDict got = parts.state_dict();
    for (NamedTensor& held : got) held.tensor = held.tensor.detach().clone();
    net.session().plugin->join(got);
    if (launch_from_env().rank != 0) continue;
    for (size_t k = 0; k < want.size(); ++k) {
      INFO("round ", round, ": ", want[k].name);
      const Tensor difference =
          cast(got[k].tensor, DType::f32) - cast(want[k].tensor.detach(), DType::f32);
      CHECK(amax(abs(difference)).item() < spreading.tolerance * (round + 1));
    }
  }
}

}  // namespace

TEST_CASE("rank: joined means" * doctest::skip()) {
  const int ranks = launch_from_env().size;
  uint32_t seed = 10;
  for (const Spreading& spreading : spreadings(ranks))
    for (int draw = 0; draw < 2; ++draw) check_joined_steps(spreading, ++seed);
}
TEST_CASE("with loss_mean rows a step is that of one mean over all rows that count, everywhere") {
  run_ranks("rank: joined means", 1);
  run_ranks("rank: joined means", 2);
  run_ranks("rank: joined means", 4);
}

// Ranks share the tokens of a sequence in the first block; the loss is a custom criterion.
TEST_CASE("rank: joined means of tokens" * doctest::skip()) {
  constexpr int64_t tokens = 4;
  const auto token_model = [] {
    manual_seed(6);
    return Model(Sequential({Sequential({LayerNorm(row_width), Linear(row_width, row_width)}),
                             Linear(row_width, class_count)}));
  };
  const CrossEntropyLoss of_rows;
  const Criterion loss(
      "token_loss",
      [of_rows](const Tensor& y, const Tensor& t) { return of_rows(flatten(y, 0, 1), flatten(t)); },
      [of_rows](const Tensor& t) { return of_rows.divisor(flatten(t)); });
  for (const char* mode : {"all_to_all", "ring_attn"}) {
    INFO(mode);
    Booster spread({.plugin = HybridParallelPlugin(
                        {.sp_size = 2,
                         .tensor_plan = {{"1", {.style = SplitStyle::column, .gather = true}}},
                         .sequence_parallelism_mode = mode,
                         .sequence_blocks = "0.*"},
                        launch_from_env().group()),
                    .loss_mean = "rows"});
    const int place = spread.plugin().mesh().place("data");
    const Model parts = token_model(), whole = token_model();
    auto [net, optimizer, loss_fn] =
        spread.boost(parts, SGD(parts.parameters(), {.lr = 0.5}), loss);
    SGD alone(whole.parameters(), {.lr = 0.5});
    std::mt19937 random(8);
    for (int step = 0; step < 3; ++step) {
      std::vector<Tensor> inputs, labels;
      for (int64_t data = 0; data < 2; ++data) {
        std::vector<int64_t> values;
        for (int64_t i = 0; i < 3 * tokens; ++i)
          values.push_back(random() % 5 < 1 + 3 * static_cast<uint32_t>(data) ? i % class_count
                                                                              : no_label);
        Generator generator(random());
        inputs.push_back(uniform({3, tokens, row_width}, -1, 1, {}, generator));
        labels.push_back(from_vector(values, {3, tokens}));
      }
      const auto own = static_cast<size_t>(place);
      spread.backward(loss_fn(net(inputs[own]), labels[own]), optimizer);
      optimizer.step();
      optimizer.zero_grad();
      backward(loss(whole(cat(inputs, 0)), cat(labels, 0)));
      alone.step();
      alone.zero_grad();
      for (size_t k = 0; k < whole.parameters().size(); ++k) {
        const Tensor difference =
            parts.parameters()[k].tensor.detach() - whole.parameters()[k].tensor.detach();
        CHECK(amax(abs(difference)).item() < 2e-5);
      }
    }
  }
}
TEST_CASE("loss_mean rows counts each token once where ranks share them") {
  run_ranks("rank: joined means of tokens", 4);
}

// Labels that count: 1 on rank 0, 3 on rank 1.
TEST_CASE("rank: two means" * doctest::skip()) {
  const World world = launch_from_env();
  const Tensor label = from_vector(
      world.rank == 0 ? std::vector<int64_t>{0, no_label, no_label} : std::vector<int64_t>{0, 1, 0},
      {3});
  const std::pair<const char*, double> ways[] = {{"ranks", 0.5}, {"rows", 0.25}};
  for (const auto& [mean, share_of_first] : ways) {
    const Model model = Linear(1, 2, {.bias = false});
    const NoGradGuard no_grad;
    model.parameters()[0].tensor.zero_();
    const GradMode on(true);
    Booster booster({.plugin = TorchDDPPlugin(), .loss_mean = mean});
    auto [net, optimizer, loss_fn] =
        booster.boost(model, SGD(model.parameters(), {.lr = 1}), CrossEntropyLoss());
    const double x = world.rank == 0 ? 1 : 0;  // only rank 0 has a gradient
    booster.backward(loss_fn(net(full({3, 1}, x)), label), optimizer);
    optimizer.step();
    CHECK(model.parameters()[0].tensor.to_vector<float>()[0] ==
          doctest::Approx(0.5 * share_of_first));
  }
}
TEST_CASE("by default ranks average their means, as in torch's DDP") {
  run_ranks("rank: two means", 2);
}

TEST_CASE("loss_mean rows refuses what it cannot join, and says what it wants") {
  CHECK(contains(error_of([] { Booster({.loss_mean = "row"}); }), "unknown loss_mean; got row"));
  Booster booster({.loss_mean = "rows"});
  const Model model = label_model(), other = label_model();
  const auto several = error_of([&] {
    booster.boost({model, other},
                  {SGD(model.parameters(), {.lr = 1}), SGD(other.parameters(), {.lr = 1})});
  });
  CHECK(contains(several, "loss_mean rows supports one optimizer; got 2"));
  auto [net, optimizer, loss_fn] =
      booster.boost(model, SGD(model.parameters(), {.lr = 1}), CrossEntropyLoss());
  const Tensor x = ones({2, row_width}), label = from_vector(std::vector<int64_t>{1, 2}, {2});
  const auto own = error_of([&] { booster.backward(sum(net(x)), optimizer); });
  CHECK(contains(own, "got 0 since the last loss"));
  optimizer.zero_grad();
  const auto two = error_of(
      [&] { booster.backward(loss_fn(net(x), label) + loss_fn(net(x), label), optimizer); });
  CHECK(contains(two, "got 2 since the last loss"));
  optimizer.zero_grad();
  booster.backward(loss_fn(net(x), label), optimizer);
  optimizer.step();
  const auto late = error_of([&] { booster.backward(loss_fn(net(x), label), optimizer); });
  CHECK(contains(late, "want zero_grad before the first loss of a step"));
  auto [plain, its_optimizer, sums] = booster.boost(
      other, SGD(other.parameters(), {.lr = 1}), CrossEntropyLoss({.reduction = Reduction::sum}));
  const auto no_mean = error_of([&] { sums(plain(x), label); });
  CHECK(contains(no_mean, "only a mean has a divisor"));
}
