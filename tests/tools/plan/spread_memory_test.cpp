// A plan against trainings distributed over two ranks: the peak memory of the rank that holds most.
#include "tests/parallel/ranks.h"
#include "tests/tools/plan/trained_config.h"
#include "tools/plan/candidates.h"
#include "tools/plan/probe.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <fstream>

using namespace booster;
using namespace booster::plan;

namespace {

struct SpreadCase {
  std::string plugin;  // in the config
  Spread spread;
  std::string precision;
  int64_t rows = 0;  // batch of each data-parallel position
};

std::vector<SpreadCase> cases() {
  const std::pair<const char*, Spread> spreads[] = {
      {R"({"name": "torch_ddp"})", {.layout = {.data = 2}}},
      {R"({"name": "low_level_zero", "stage": 1})", {.layout = {.data = 2, .zero_stage = 1}}},
      {R"({"name": "low_level_zero", "stage": 2})", {.layout = {.data = 2, .zero_stage = 2}}},
      {R"({"name": "fsdp"})", {.layout = {.data = 2, .zero_stage = 3}}},
      {R"({"name": "fsdp", "recompute": true})",
       {.layout = {.data = 2, .zero_stage = 3}, .recompute = true}},
      {R"({"name": "hybrid_parallel", "tp_size": 2})", {.layout = {.tensor = 2}}},
      {R"({"name": "hybrid_parallel", "pp_size": 2, "num_microbatches": 4})",
       {.layout = {.pipeline = 2}, .microbatches = 4}},
  };
  std::vector<SpreadCase> all;
  for (const auto& [plugin, spread] : spreads)
    for (const char* precision : {"fp32", "bf16", "fp16_naive"})
      for (const int64_t rows : {4, 16}) all.push_back({plugin, spread, precision, rows});
  return all;
}

Config config_of(const SpreadCase& one) {
  return Config::from_text(
      "{}", "config",
      {"model.name=vit_tiny_patch16_224", "model.img_size=64", "model.num_heads=4",
       "model.num_classes=10", "model.depth=6", "optimizer.name=adamw",
       "booster.plugin=" + one.plugin, "booster.mixed_precision=" + one.precision});
}

std::string peaks_file(const std::string& folder, int rank) {
  return fmt::format("{}/peaks-{}", folder, rank);
}

}  // namespace

TEST_CASE("rank: peaks of spread trainings" * doctest::skip()) {
  const int rank = launch_from_env().rank;
  std::ofstream peaks(peaks_file(test_folder(), rank));
  for (const SpreadCase& one : cases())
    peaks << fmt::format("{}\n", TrainedConfig(config_of(one), one.rows).peak());
}

TEST_CASE("a plan's peak of memory is that of the training on two ranks, within 10 %") {
  Ranks ranks("rank: peaks of spread trainings", 2, {{"OMP_NUM_THREADS", "1"}});
  REQUIRE(failures(ranks.wait(300)) == "");
  std::ifstream files[] = {std::ifstream(peaks_file(ranks.folder(), 0)),
                           std::ifstream(peaks_file(ranks.folder(), 1))};
  const Cluster cluster = {
      .machine = {.name = "here", .memory_gib = 1, .gbytes_per_s = 1, .is_this_one = true},
      .per_node = 2,
      .inside = {1, 1e-5}};
  for (const SpreadCase& one : cases()) {
    double peaks[2] = {};
    for (const int rank : {0, 1}) REQUIRE(static_cast<bool>(files[rank] >> peaks[rank]));
    const ModelCost cost = probe(config_of(one), {.rows = one.rows, .timed = false}, 1);
    const MemoryPlan memory = plan_for(cost, cluster, one.spread, one.rows).prediction.memory;
    CAPTURE(one.plugin);
    CAPTURE(one.precision);
    CAPTURE(one.rows);
    CAPTURE(memory.activations);
    CAPTURE(memory.workspace);
    CAPTURE(memory.gradients);
    CAPTURE(memory.leaving);
    CHECK(memory.peak() == doctest::Approx(std::max(peaks[0], peaks[1])).epsilon(0.1).scale(0));
  }
}
