// The configs that a plan writes can be trained.
#include "tests/booster/command.h"
#include "tests/tools/plan/transformer_cost.h"
#include "tests/booster/temporary_folder.h"
#include "tools/plan/candidates.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <fstream>
#include <map>
#include <random>
#include <set>

using namespace booster;
using namespace booster::plan;
using nlohmann::json;

namespace {

// Layouts that otherwise do not fit are proposed with recomputed blocks.
ModelCost model_of(int64_t features) {
  return transformer_cost({.layers = 8, .features = features, .tokens = 64, .heads = 4}, 4,
                          {2, 0, 2, 4, 8});
}

}  // namespace

TEST_CASE("a plan proposes every axis, schedule and way to save memory, where they are of use") {
  std::set<std::string> seen;
  for (const int64_t features : {256, 32768})
    for (const Plan& each : all_plans(model_of(features), gpu_cluster("rtx3090", 2, 4), 64)) {
      const auto& [layout, style, microbatches, chunks, recompute, on_a_node, overlaps] =
          each.spread;
      seen.insert(fmt::format("zero {}", layout.zero_stage));
      if (layout.sequence > 1) seen.insert("sequence");
      if (layout.tensor > 1) seen.insert("tensor");
      if (layout.pipeline > 1) seen.insert(name_of(style));
      if (recompute) seen.insert("recompute");
      if (on_a_node) seen.insert("on each node");
      if (recompute) CHECK(features == 32768);
    }
  const std::set<std::string> want = {"1f1b",     "interleaved", "on each node", "recompute",
                                      "sequence", "tensor",      "zero 0",       "zero 1",
                                      "zero 2",   "zero 3",      "zero_bubble"};
  CHECK(seen == want);
}

TEST_CASE("config check takes what a plan proposes") {
  const TemporaryFolder folder;
  const std::string file = (folder / "config.json").string();
  std::mt19937 random(20251124);
  const auto drawn = [&](const auto& list) -> const auto& {
    return list[random() % std::size(list)];
  };
  std::set<std::string> plugins;
  const auto write = [&](const json& config) { std::ofstream(file) << config.dump(); };
  for (int trial = 0; trial < 12; ++trial) {
    const bool is_text = random() % 2 == 0;
    const int nodes = drawn(std::array{1, 2, 4}), ranks = drawn(std::array{1, 2, 4, 8});
    const std::string model =
        is_text ? R"({"name": "gpt2", "n_layer": 8, "n_head": 4, "n_embd": 32, "n_positions": 64,
                      "vocab_size": 100})"
                : R"({"name": "vit_tiny_patch16_224", "img_size": 32, "depth": 8, "num_heads": 4})";
    json config = {{"model", json::parse(model)},
                   {"booster",
                    {{"mixed_precision",
                      drawn(std::array{"fp32", "fp16", "bf16", "fp16_apex", "fp16_naive"})}}}};
    write(config);
    const CommandResult said = run_booster(
        fmt::format("plan --config '{}' --gpu h100 --nodes {} --gpus-per-node {} --batch_size 16 "
                    "--json",
                    file, nodes, ranks));
    REQUIRE_MESSAGE(said.code == 0, said.output);
    const json all = json::parse(said.output.substr(said.output.find("{\"own")))["all"];
    std::map<std::string, std::vector<json>> by_plugin;
    for (const json& plan : all) by_plugin[plan["plugin"]["name"]].push_back(plan);
    for (const auto& [name, plans] : by_plugin) {
      const json& plan = drawn(plans);
      config["booster"]["plugin"] = plan["plugin"];
      plugins.insert(plan["plugin"]["name"].get<std::string>());
      write(config);
      const CommandResult check = run_booster("config check '" + file + "'");
      CHECK_MESSAGE(check.code == 0, (config.dump() + "\n" + check.output));
    }
  }
  CHECK(plugins ==
        std::set<std::string>{"fsdp", "hybrid_parallel", "low_level_zero", "single", "torch_ddp"});
}
