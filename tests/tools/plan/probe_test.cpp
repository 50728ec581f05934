// A plan against its training: peak memory on this machine.
#include "tests/booster/command.h"
#include "tests/booster/temporary_folder.h"
#include "tests/tools/plan/trained_config.h"
#include "tools/plan/candidates.h"
#include "tools/plan/probe.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace booster;
using namespace booster::plan;

TEST_CASE("a plan's peak of memory is that of the training, within 10 %") {
  for (const char* precision : {"fp32", "fp16", "bf16", "fp16_apex", "fp16_naive"})
    for (const int64_t rows : {1, 4, 16})
      for (const int depth : {3, 7}) {
        const Config config = Config::from_text(
            "{}", "config",
            {"model.name=vit_tiny_patch16_224", "model.img_size=64", "model.num_classes=10",
             "model.depth=" + std::to_string(depth), "optimizer.name=adamw",
             std::string("booster.mixed_precision=") + precision});
        const ModelCost cost = probe(config, {.rows = rows, .timed = false}, 1);
        const Cluster alone = {.machine = {.name = "here", .memory_gib = 1, .is_this_one = true}};
        const double planned = plan_for(cost, alone, {}, rows).prediction.memory.peak();
        const double real = TrainedConfig(config, rows).peak();
        CAPTURE(precision);
        CAPTURE(rows);
        CAPTURE(depth);
        CHECK(planned == doctest::Approx(real).epsilon(0.1).scale(0));
      }
}

TEST_CASE("a trial tells the bytes of a parameter, its blocks, and what a program does besides") {
  const Config config = Config::from_text(
      "{}", "config",
      {"model.name=vit_tiny_patch16_224", "model.img_size=32", "model.num_classes=10",
       "model.depth=9", "optimizer.name=adamw", "booster.mixed_precision=fp32"});
  for (const bool timed : {false, true}) {
    const ModelCost cost = probe(config, {.rows = 2, .timed = timed}, 1);
    CHECK(cost.parameters() == static_cast<double>(make_model(config)->parameter_count()));
    CHECK(cost.block.parameters == 12 * 192 * 192 + 13 * 192);
    CHECK(cost.block.cut == 12 * 192 * 192 + 7 * 192);  // all but two biases and normalisations
    CHECK(cost.tokens == 5);
    const BytesPerParameter& bytes = cost.bytes;
    CHECK(bytes.parameters == doctest::Approx(4).epsilon(0.02));
    CHECK(bytes.gradients == doctest::Approx(4).epsilon(0.02));
    CHECK(bytes.optimizer == doctest::Approx(8).epsilon(0.02));
  }
  const auto calls_of_update = [&](double clip) {
    double calls = 0;
    const TriedStep step = {.rows = 2, .clip_grad_norm = clip, .timed = false};
    for (const auto& [kind, work] : probe(config, step, 1).update) calls += work.calls;
    return calls;
  };
  CHECK(calls_of_update(1) > calls_of_update(0));
}

TEST_CASE("booster plan prints a plan, writes the config of the best, and refuses what cannot be") {
  const TemporaryFolder folder;
  const std::string config = (folder / "config.json").string();
  std::ofstream(config) << R"({"model": {"name": "vit_tiny_patch16_224", "img_size": 32,
    "depth": 4}, "data": {"batch_size": 8}, "train": {"epochs": 3},
    "booster": {"plugin": {"name": "torch_ddp"}, "mixed_precision": "bf16"}})";
  const auto plan = [&](const std::string& more) {
    return run_command("'" + (build_folder() / "tools/booster").string() + "' plan --config '" +
                       config + "' " + more);
  };
  const CommandResult alone = plan("");
  CHECK_MESSAGE(alone.code == 0, alone.output);
  CHECK(alone.says("layout           data 1\n"));
  const std::string best = (folder / "best.json").string();
  const CommandResult found =
      plan("--gpu h200 --nodes 2 --gpus-per-node 4 --json --set optimizer.name=sgd --write '" +
           best + "'");
  REQUIRE_MESSAGE(found.code == 0, found.output);
  CHECK(found.says("device: the config trains on the CPU; got auto, want --set device=cuda"));
  const auto said = nlohmann::json::parse(found.output.substr(0, found.output.find('\n')));
  CHECK(said["own"]["layout"] == "data 8");
  CHECK(said["all"].size() > 10);
  const auto written = nlohmann::json::parse(folder.read("best.json"));
  CHECK(written["booster"]["plugin"] == said["all"][0]["plugin"]);
  CHECK(written["data"]["batch_size"] == said["all"][0]["batch_size"]);
  CHECK(written["train"]["epochs"] == 3);
  CHECK(written["optimizer"]["name"] == "sgd");
  CHECK(run_command("'" + (build_folder() / "tools/booster").string() + "' config check '" +
                    best + "'")
            .code == 0);
  const CommandResult loading = plan("--loader-ms 50 --json");
  const auto seconds = nlohmann::json::parse(loading.output)["own"]["seconds"];
  const double of_batch = 8 * 0.05;  // on the threads of the single rank
  CHECK(seconds["loading"].get<double>() <= of_batch);
  CHECK(seconds["loading"].get<double>() * 4096 >= of_batch);
  CHECK(seconds["all"] > seconds["loading"]);
  CHECK(plan("--set data.batch_size=2").says("; 2 samples in the batch of a rank"));
  const CommandResult wrong = plan("--gpu h2000");
  CHECK(wrong.code == 2);
  CHECK(wrong.says("did you mean h200?"));
  CHECK(plan("--nodes 0").code == 2);
  CHECK(plan("--set booster.plugin.name=hybrid_parallel --set booster.plugin.tp_size=2 "
             "--gpu h200 --gpus-per-node 4")
            .says("3 heads over 2 ranks"));
}
