// A plan's predictions against formulas.
#include "tests/tools/plan/transformer_cost.h"
#include "tests/error_of.h"
#include "tools/plan/candidates.h"
#include "tools/plan/ring.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;
using namespace booster::plan;

namespace {

// bf16 with f32 masters and AdamW: 16 bytes per parameter.
constexpr BytesPerParameter sixteen = {2, 0, 2, 4, 8};

ModelCost gpt(int64_t layers, int64_t features, int64_t heads, int64_t rows = 8) {
  return transformer_cost({.layers = layers, .features = features, .tokens = 1024, .heads = heads},
                          rows, sixteen);
}

// Returns a machine on which only kernel launches take time.
Cluster launching(int ranks) {
  return {.machine = {.name = "launching",
                      .memory_gib = 1e6,
                      .gbytes_per_s = 1e15,
                      .seconds_per_call = 1,
                      .gflops_per_s = {{"bf16", 1e15}, {"f32", 1e15}}},
          .per_node = ranks,
          .inside = {1e15, 0},
          .between = {1e15, 0}};
}

double calls_of(const Works& works) {
  double calls = 0;
  for (const auto& [kind, work] : works) calls += work.calls;
  return calls;
}

}  // namespace

TEST_CASE("a rank sends what the formulas of collectives say") {
  ModelCost vit = transformer_cost({}, 8, {4, 0, 2, 0, 0});
  vit.ends.parameters = 86.57e6 - vit.blocks * vit.block.parameters;
  const Cluster cluster = gpu_cluster("h100", 1, 8);
  const double all = 86.57e6 * 1e-9;
  const auto sent = [&](int zero) {
    const Spread spread = {.layout = {.data = 8, .zero_stage = zero}};
    return predict(vit, cluster, spread).traffic.at(0).gbytes;
  };
  CHECK(sent(0) == doctest::Approx(2 * 7.0 / 8 * all * 2));
  CHECK(sent(1) == doctest::Approx(7.0 / 8 * all * (2 + 4)));
  CHECK(sent(3) == doctest::Approx(7.0 / 8 * all * (2 + 4 + 4)));
}

TEST_CASE("ZeRO keeps the bytes per parameter that its paper says") {
  const ModelCost model = gpt(24, 2048, 16);
  const double parameters = model.parameters();
  for (const int ranks : {2, 8, 64}) {
    const Cluster cluster = gpu_cluster("h100", 1, ranks);
    const double n = ranks;
    const double want[] = {16, 4 + 12 / n, 2 + 14 / n, 16 / n};
    for (int zero = 0; zero <= 3; ++zero) {
      const Spread spread = {.layout = {.data = ranks, .zero_stage = zero}};
      const MemoryPlan memory = predict(model, cluster, spread).memory;
      const double gathered = zero == 3 ? 2 * model.block.parameters * 2 : 0;
      const double kept =
          memory.parameters - gathered + memory.gradients + memory.masters + memory.optimizer;
      CHECK(kept / parameters == doctest::Approx(want[zero]));
    }
  }
}

TEST_CASE("a pipeline idles as its schedule says, and the memory of a stage is a part") {
  const ModelCost model = gpt(24, 2048, 16, 32);
  Cluster cluster = gpu_cluster("h100", 1, 4);
  cluster.inside = {1e9, 0};  // sending takes no time
  for (const int microbatches : {4, 8, 32}) {
    const Spread spread = {.layout = {.pipeline = 4}, .microbatches = microbatches};
    const Prediction found = predict(model, cluster, spread);
    CHECK(found.bubble() == doctest::Approx(3.0 / (microbatches + 3)));
    const double whole = model.ends.saved_bytes + 6 * model.block.saved_bytes;
    CHECK(found.memory.activations == doctest::Approx(whole * 4 / microbatches));
  }
}

TEST_CASE("what cannot be spread so is refused with the sizes") {
  const ModelCost vit = gpt(12, 768, 12);
  const auto said = [&](Layout layout, int ranks) {
    return error_of([&] { plan_for(vit, gpu_cluster("h200", 1, ranks), {.layout = layout}, 8); });
  };
  const std::string begin = "plan: the layout does not fit; got ";
  CHECK(said({.tensor = 8}, 8) == begin + "12 heads over 8 ranks");
  CHECK(said({.pipeline = 16}, 16) == begin + "12 blocks over 16 stages");
  CHECK(said({.sequence = 3}, 3) == begin + "1024 tokens over 3 ranks");
  CHECK(said({.data = 2}, 8) == begin + "8 ranks in a layout of 2");
  CHECK(error_of([] { gpu_cluster("h20", 1, 8); }).find("did you mean h200?") != std::string::npos);
}

TEST_CASE("every plan uses all ranks for all samples, and those that fit come first") {
  const ModelCost model = gpt(24, 6144, 48, 4);  // 11 G parameters: 176 GB
  for (const int ranks : {1, 4, 6, 16}) {
    const Cluster cluster = gpu_cluster("h100", 1, ranks);
    const auto plans = all_plans(model, cluster, 48);
    REQUIRE(!plans.empty());
    bool fit = true;
    double before = 0;
    for (const Plan& each : plans) {
      CHECK(each.spread.layout.ranks() == ranks);
      CHECK(each.rows * each.spread.layout.data == 48);
      if (fit && !each.fits(cluster.machine)) before = 0;
      CHECK(fit >= each.fits(cluster.machine));
      fit = each.fits(cluster.machine);
      CHECK(each.prediction.seconds() >= before);
      before = each.prediction.seconds();
    }
    CHECK(plans[0].fits(cluster.machine) == (ranks > 2));
  }
}

TEST_CASE("a rank begins each kernel once for each microbatch, however large its part") {
  const ModelCost model = gpt(24, 2048, 16, 4);
  const double block = calls_of(model.block.forward) + calls_of(model.block.backward);
  const double ends = calls_of(model.ends.forward) + calls_of(model.ends.backward);
  for (const int64_t rows : {4, 32, 128})
    for (const int tensor : {1, 2, 8})
      for (const int sequence : {1, 2})
        for (const int microbatches : {1, 4}) {
          const int pipeline = microbatches == 1 ? 1 : 4;
          const Spread spread = {
              .layout = {.tensor = tensor, .pipeline = pipeline, .sequence = sequence},
              .microbatches = microbatches};
          const Cluster cluster = launching(tensor * pipeline * sequence);
          const double blocks = 24.0 / pipeline, end = ends / pipeline;
          CHECK(plan_for(model, cluster, spread, rows).prediction.compute ==
                doctest::Approx(microbatches * (blocks * block + end)));
        }
}

TEST_CASE("a collective takes the time inside the nodes and that between them") {
  for (const int within : {1, 2, 8})
    for (const int nodes : {1, 3, 16})
      for (const int apart : {1, 2, 4}) {
        Cluster cluster = gpu_cluster("h100", nodes, within * apart);
        cluster.inside.seconds = cluster.between.seconds = 0;
        const Ring ring = ring_of(cluster, within * nodes, apart);
        const double k = within, n = nodes, bytes = 1e9;
        const double inside = (k - 1) / k / cluster.inside.gbytes_per_s;
        const double between = (n - 1) / n / k / cluster.between.gbytes_per_s;
        CHECK(ring.half(bytes) == doctest::Approx(inside + between));
        CHECK(ring.sent(bytes) == doctest::Approx((k * n - 1) / (k * n)));
        CHECK(ring.sent_between(bytes) == doctest::Approx((n - 1) / n / k));
      }
}

TEST_CASE("the processors of a node share its network") {
  const double alone = this_machine(1, 4).between.gbytes_per_s;
  for (const int ranks : {2, 4}) {
    const Cluster cluster = this_machine(ranks, 4);
    CHECK(cluster.ranks() == 4 * ranks);
    CHECK(cluster.between.gbytes_per_s * ranks == doctest::Approx(alone));
  }
  CHECK(this_machine(2, 4, 3).between.gbytes_per_s == 3);
}

TEST_CASE("messages are not hidden where processors compute, nor where nothing overlaps") {
  const ModelCost model = gpt(24, 2048, 16);
  Cluster cluster = gpu_cluster("h100", 2, 8);
  const double all = ring_of(cluster, 16, 1).all_reduce(model.parameters() * 2);
  Spread spread = {.layout = {.data = 16}};
  const auto told = [&] { return predict(model, cluster, spread).communication(); };
  CHECK(told() < 0.5 * all);
  spread.overlaps = false;
  CHECK(told() == doctest::Approx(all));
  spread.overlaps = true;
  cluster.machine.is_this_one = true;
  CHECK(told() == doctest::Approx(all));
}

TEST_CASE("blocks that run again cost a forward pass, and keep their inputs, and one of them all") {
  const ModelCost model = gpt(24, 2048, 16);
  const Cluster cluster = gpu_cluster("h100", 1, 1);
  const Prediction kept = predict(model, cluster, {}),
                   again = predict(model, cluster, {.layout = {}, .recompute = true});
  const double pass = seconds_of(model.block.forward, cluster.machine) * 24;
  CHECK(again.compute - kept.compute == doctest::Approx(pass));
  CHECK(again.memory.activations ==
        doctest::Approx(model.ends.saved_bytes + 24 * model.stream_bytes));
  CHECK(again.memory.workspace - kept.memory.workspace == doctest::Approx(model.block.saved_bytes));
}

TEST_CASE("parts of parameters that stay on a node send a part of the gradients between them") {
  const ModelCost model = gpt(24, 2048, 16);
  const Cluster cluster = gpu_cluster("h100", 4, 8);
  const auto traffic = [&](bool on_a_node) {
    return predict(model, cluster,
                   {.layout = {.data = 32, .zero_stage = 3}, .shards_on_a_node = on_a_node})
        .traffic.at(0);
  };
  const double gradients = model.parameters() * 2 * 1e-9;  // weights have the same number of bytes
  CHECK(traffic(true).gbytes_between == doctest::Approx(2 * 3.0 / 4 * gradients / 8));
  CHECK(traffic(false).gbytes_between == doctest::Approx(3 * 3.0 / 4 * gradients / 8));
  CHECK(traffic(true).gbytes == doctest::Approx((3 * 7.0 / 8 + 2 * 3.0 / 4 / 8) * gradients));
}

TEST_CASE("ranks that share tokens exchange four times in each pass of a block") {
  const ModelCost model = gpt(24, 2048, 16);
  const Spread spread = {.layout = {.sequence = 4}};
  const auto traffic = predict(model, gpu_cluster("h100", 1, 4), spread).traffic;
  REQUIRE(traffic.size() == 2);
  CHECK(traffic[0].axis == "sequence");
  CHECK(traffic[0].gbytes == doctest::Approx(24 * 8 * 3.0 / 4 * model.stream_bytes * 1e-9 / 4));
  CHECK(traffic[1].axis == "data");  // their gradients are summed
}
