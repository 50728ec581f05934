// What a plan predicts, against formulas and against figures that others have published.
#include "booster/plan/candidates.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;
using namespace booster::plan;

namespace {

// bf16 with f32 masters and AdamW: 16 bytes for each parameter.
constexpr BytesPerParameter sixteen = {2, 0, 2, 4, 8};

ModelCost gpt(int64_t layers, int64_t features, int64_t heads, int64_t rows = 8) {
  return transformer_cost({.layers = layers, .features = features, .tokens = 1024, .heads = heads},
                          rows, sixteen);
}

// Samples per second and GPU, relative to those of the smaller number of nodes.
double efficiency(const ModelCost& model, const char* gpu, int nodes, int more_nodes, int zero) {
  const auto each = [&](int n) {
    const Cluster cluster = gpu_cluster(gpu, n, 8);
    const Spread spread = {.layout = {.data = n * 8, .zero_stage = zero}};
    return plan_for(model, cluster, spread, model.rows).prediction.samples_per_second() / n;
  };
  return each(more_nodes) / each(nodes);
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
      const double kept = memory.parameters - gathered + memory.gradients + memory.masters +
                          memory.optimizer;
      CHECK(kept / parameters == doctest::Approx(want[zero]));
    }
  }
}

TEST_CASE("a pipeline idles as its schedule says, and the memory of a stage is a part") {
  const ModelCost model = gpt(24, 2048, 16, 32);
  Cluster cluster = gpu_cluster("h100", 1, 4);
  cluster.inside = {1e9, 0};  // sends in no time
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

// The figures and their sources are in docs/plan.md.
TEST_CASE("published figures of scaling are met within 10 %") {
  // Llama 3 8B, FSDP: two texts of 8192 tokens per H100, 8 to 128 of them.
  const ModelCost llama = transformer_cost({.layers = 32, .features = 4096, .tokens = 8192,
                                            .heads = 32, .block_parameters = 218.1e6,
                                            .end_parameters = 1050e6}, 2, {4, 2, 2, 0, 8});
  CHECK(efficiency(llama, "h100", 1, 16, 3) == doctest::Approx(0.977).epsilon(0.1).scale(0));
  // GPT-3 175B, 1152 texts: 8 tensor x 12 pipeline ranks with 8 pieces each, 96 to 4608 H100.
  const auto mfu = [](int nodes) {
    const int data = nodes * 8 / 96;
    const ModelCost gpt3 = transformer_cost({.layers = 96, .features = 12288, .tokens = 2048,
                                             .heads = 96}, 1152 / data, sixteen);
    const Spread spread = {.layout = {.data = data, .tensor = 8, .pipeline = 12, .zero_stage = 1},
                           .style = PipelineStyle::interleaved,
                           .microbatches = 1152 / data,
                           .chunks = 8};
    return predict(gpt3, gpu_cluster("h100", nodes, 8), spread).samples_per_second() / nodes;
  };
  CHECK(mfu(576) / mfu(12) == doctest::Approx(0.89).epsilon(0.1).scale(0));
}
