// The example program, run as a user runs it: mistakes leave no files behind, and a rerun loses
// nothing.
#include "tests/examples/example.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <sstream>

using namespace booster;

TEST_CASE("a diagnosed training tells what it saw, and its dump equals itself") {
  const Example example;
  const CommandResult result = example.run(
      "booster.mixed_precision=bf16 train.max_steps=2 train.diagnose=1:2 "
      "train.diagnose_check=all");
  CHECK_MESSAGE(result.code == 0, result.output);
  CHECK(result.says("numerics: bf16 on single, 2 steps observed"));
  CHECK(result.says("op count: "));
  CHECK(std::filesystem::exists(example.output() / "numerics.json"));
  const std::string dump = (example.output() / "worker_cpu").string();
  CHECK(example.compare(dump, dump).code == 0);
  CHECK(example.compare(dump, dump).says(" 0 abnormal, 0 with a ratio"));
}

TEST_CASE("on two ranks the table is rank 0's, each rank has a dump, findings are of both") {
  const Example example;
  const std::string sets =
      "booster.plugin=torch_ddp train.max_steps=2 train.epochs=2 train.diagnose=1:2 ";
  const CommandResult result = example.run(
      sets + "booster.mixed_precision=bf16 train.diagnose_check=all", "run --nproc_per_node 2");
  CHECK_MESSAGE(result.code == 0, result.output);
  CHECK(result.says("numerics: bf16 on torch_ddp, 2 steps observed"));
  CHECK(result.output.find("numerics: ") == result.output.rfind("numerics: "));
  for (const char* name : {"numerics.json", "worker_cpu.0", "worker_cpu.1"})
    CHECK(std::filesystem::file_size(example.output() / name) > 0);
  const std::string folder = example.output().string();
  CHECK(example.compare(folder, folder).code == 0);
}

TEST_CASE("an error that the doctor finds ends all ranks with code 3") {
  const Example example;
  const CommandResult result = example.run(
      "booster.plugin=torch_ddp booster.mixed_precision=fp16 optimizer.lr=1e38 "
      "optimizer.weight_decay=0.1 train.max_steps=4 train.epochs=4 train.diagnose=1:4 "
      "train.on_nan=warn",
      "run --nproc_per_node 2");
  CHECK_MESSAGE(result.code == 3, result.output);
  CHECK_MESSAGE(result.says("error, step 2, pitfall 2: patch_embed.proj: forward overflow"),
                result.output);
}

TEST_CASE("what the loss scaler refuses is told once, and metrics keep it") {
  const Example example;
  const CommandResult result = example.run(
      "booster.mixed_precision={\"name\":\"fp16\",\"init_scale\":1.2e-38} optimizer.lr=1e38 "
      "optimizer.weight_decay=0.1 train.max_steps=8 train.epochs=4 train.on_nan=warn");
  CHECK_MESSAGE(result.code == 0, result.output);
  const size_t told = result.output.find("loss scale: it collapsed");
  CHECK_MESSAGE(told != std::string::npos, result.output);
  CHECK(result.output.rfind("loss scale: it collapsed") == told);
  CHECK(example.metrics().find("\"refusal\":\"loss scale: it collapsed") != std::string::npos);
}

TEST_CASE("a config that cannot train ends with code 2 and leaves no folder") {
  const Example example;
  const std::pair<const char*, const char*> mistakes[] = {
      {"optimizer.nesterov=true", "nesterov needs momentum"},
      {"device=cuda:7", "this GPU is not usable"},
      {"lr_scheduler={\"name\":\"one_cycle\",\"total_steps\":2}",
       "one_cycle ends before the training"},
      {"model.name=vit_tiny_patch16_242", "did you mean vit_tiny_patch16_224?"},
  };
  for (const auto& [set, says] : mistakes) {
    const CommandResult result = example.run(set);
    CHECK_MESSAGE(result.code == 2, result.output);
    CHECK_MESSAGE(result.says(says), result.output);
    CHECK(!std::filesystem::exists(example.output()));
  }
}

TEST_CASE("a missing data folder is named and nothing is written") {
  const Example example;
  const CommandResult result = example.run("data.root=/no/such/folder");
  CHECK(result.code == 1);
  CHECK(result.says("no such folder; got '/no/such/folder'"));
  CHECK(!std::filesystem::exists(example.output()));
}

TEST_CASE("several ranks with the plugin for one are refused") {
  const Example example;
  const CommandResult result = example.run("", "run --nproc_per_node 2");
  CHECK(result.code == 2);
  CHECK(result.says("single: booster run (or torchrun) started 2 ranks"));
  CHECK(result.says("want torch_ddp"));
  CHECK(!std::filesystem::exists(example.output()));
}

// Returns the losses of a training's steps and of its last validation.
std::vector<double> losses(const Example& example) {
  std::vector<double> all;
  for (const auto& line : example.metric_lines())
    for (const char* name : {"loss", "val_loss"})
      if (line.contains(name)) all.push_back(line[name]);
  return all;
}

TEST_CASE("a mesh of two ranks that share a model trains as one process does") {
  const std::string sets =
      "train.epochs=2 train.accumulate=2 train.clip_grad_norm=1 booster.mixed_precision=fp32 "
      "model.num_heads=4 model.depth=2 model.embed_dim=32 ";
  const Example alone;
  REQUIRE(alone.run(sets + "booster.plugin=single").code == 0);
  const std::vector<double> want = losses(alone);
  for (const char* mesh : {R"("tp_size":2)", R"("pp_size":2)",
                           R"("pp_size":2,"pp_style":"zero_bubble","num_microbatches":4)"}) {
    CAPTURE(mesh);
    const Example example;
    const CommandResult result =
        example.run(sets + fmt::format(R"(booster.plugin={{"name":"hybrid_parallel",{}}})", mesh),
                    "run --nproc_per_node 2");
    REQUIRE_MESSAGE(result.code == 0, result.output);
    const std::vector<double> got = losses(example);
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < want.size(); ++i)
      CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-3));
  }
}

TEST_CASE("batches that are left of an epoch make a step of their own, also where it goes on") {
  const std::string sets = "data.batch_size=2 train.epochs=2 ";  // 12 images are 6 batches
  const auto trained = [&](const std::string& more) {
    const Example example;
    const CommandResult result = example.run(sets + more);
    REQUIRE_MESSAGE(result.code == 0, result.output);
    return example.last_weights();
  };
  CHECK(trained("train.accumulate=6") == trained("train.accumulate=100"));
  const std::string weights = trained("train.accumulate=4");
  const Example example;
  REQUIRE(example.run(sets + "train.accumulate=4 train.max_steps=1").code == 0);
  const CommandResult rest = example.run(sets + "train.accumulate=4");
  REQUIRE_MESSAGE(rest.code == 0, rest.output);
  CHECK(rest.says("after 4 steps"));
  CHECK(example.last_weights() == weights);
}

TEST_CASE("ranks without an image to validate help those that have one") {
  // Half of each class is for validation: 4 images, so one of three ranks has one image more.
  const Example example(4);
  const CommandResult result = example.run(
      "train.epochs=1 booster.plugin=fsdp data.batch_size=1 data.validation_fraction=0.5",
      "run --nproc_per_node 3");
  REQUIRE_MESSAGE(result.code == 0, result.output);
  CHECK(result.says("validation accuracy"));
}

TEST_CASE("a finished training that is started again keeps its accuracy and its metrics") {
  const Example example;
  const std::string sets = "train.epochs=1 train.checkpoint_every=1";
  const CommandResult first = example.run(sets);
  REQUIRE_MESSAGE(first.code == 0, first.output);
  const std::string metrics = example.metrics();
  const std::string last_line = first.output.substr(first.output.rfind("validation accuracy"));
  const CommandResult again = example.run(sets);
  CHECK(again.code == 0);
  CHECK(again.says(last_line));
  CHECK(example.metrics() == metrics);
}

TEST_CASE("a finished training goes on when it is given more steps") {
  const Example example;
  REQUIRE(example.run("train.epochs=3 train.max_steps=4").code == 0);
  const CommandResult more = example.run("train.epochs=3 train.max_steps=8");
  CHECK(more.code == 0);
  CHECK(more.says("resumed from step 4 of 8"));
  CHECK(more.says("after 8 steps"));
}

TEST_CASE("larger batches that leave no step to epochs that are not over are refused") {
  const Example example;
  const std::string sets = "lr_scheduler={\"name\":\"constant\"} ";
  REQUIRE(example.run(sets + "data.batch_size=1 train.epochs=2").code == 0);
  const CommandResult none = example.run(sets + "data.batch_size=4 train.epochs=3");
  CHECK(none.code == 2);
  CHECK_MESSAGE(none.says("of which 2 are over, is at step"), none.output);
  const auto at = none.output.find("want train.epochs at least ");
  REQUIRE(at != none.output.npos);
  const int enough = std::stoi(none.output.substr(at + 27));
  CHECK(example.run(sets + fmt::format("data.batch_size=4 train.epochs={}", enough - 2)).code == 2);
  const auto epochs = fmt::format("data.batch_size=4 train.epochs={}", enough);
  for (int i = 0; i < 2; ++i) {  // and once more when it has ended
    const CommandResult more = example.run(sets + epochs);
    CHECK_MESSAGE(more.code == 0, more.output);
  }
}

TEST_CASE("settings changed between two runs are in force and told, or refused by name") {
  const Example example;
  const std::string sets =
      "train.epochs=3 optimizer.lr=0.001 lr_scheduler={\"name\":\"constant\"} ";
  REQUIRE(example.run(sets + "train.max_steps=4").code == 0);
  for (const auto& [set, says] :
       {std::pair("train.seed=43", "another seed; got 43 now, want 42 to resume"),
        std::pair("data.batch_size=3", "no whole number of steps; got batch_size 3 on 1 ranks"),
        std::pair("data.validation_fraction=0.5", "other data; got 8 samples of 2 classes")}) {
    const CommandResult refused = example.run(sets + "train.max_steps=8 " + set);
    CHECK(refused.code == 1);
    CHECK_MESSAGE(refused.says(says), refused.output);
  }
  const CommandResult more = example.run(sets + "train.max_steps=8 optimizer.lr=0.5");
  CHECK(more.code == 0);
  CHECK_MESSAGE(more.says("optimizer.lr: changed from 0.001 to 0.5; the new value counts"),
                more.output);
  CHECK(more.says("train.max_steps: changed from 4 to 8; the new value counts"));
  const auto record = nlohmann::json::parse(example.record());
  CHECK(record["resumed"]["step"] == 4);
  CHECK(record["resumed"]["changes"]["optimizer.lr"]["now"] == "0.5");
  std::istringstream metrics(example.metrics());
  int before = 0, after = 0;
  for (std::string line; std::getline(metrics, line);) {
    const auto row = nlohmann::json::parse(line);
    if (!row.contains("lr")) continue;
    CHECK((row["lr"] <= 0.001) == (row["step"] <= 4));
    ++(row["step"] <= 4 ? before : after);
  }
  CHECK(before > 0);
  CHECK(after > 0);
}

TEST_CASE("a run says where its time went, and run.json keeps it") {
  const Example example;
  const CommandResult result = example.run("train.epochs=1", "run --nproc_per_node 1");
  CHECK_MESSAGE(result.code == 0, result.output);
  CHECK_MESSAGE(result.says("time: "), result.output);
  const auto seconds = nlohmann::json::parse(example.record()).at("seconds");
  CHECK(seconds.size() == 7);
  double sum = -seconds.at("wall").get<double>();
  for (const char* name : {"start", "training", "validation", "data", "checkpoints", "rest"}) {
    CHECK(seconds.at(name).get<double>() >= 0);
    sum += seconds.at(name).get<double>();
  }
  CHECK(std::abs(sum) < 1e-6);
}

TEST_CASE("bad images of both sets follow the policy") {
  const Example example;
  for (const char* name : {"dark/image_0001.jpg", "dark/image_0002.jpg", "light/image_0003.jpg",
                           "light/image_0004.jpg", "light/image_0005.jpg"})
    std::ofstream(example.image(name)) << "no image";
  const CommandResult skipped = example.run("train.epochs=1 data.on_bad_image=skip");
  CHECK_MESSAGE(skipped.code == 0, skipped.output);
  CHECK_MESSAGE(skipped.says("5 bad images skipped"), skipped.output);
  std::filesystem::remove_all(example.output());
  const CommandResult failed = example.run("train.epochs=1");
  CHECK(failed.code == 1);
  CHECK(failed.says("bad image '"));
}

TEST_CASE("a set without a single good image is an error under skip as well") {
  const Example example;
  for (const char* name : {"dark", "light"})
    for (const auto& entry : std::filesystem::directory_iterator(example.image(name)))
      std::ofstream(entry.path()) << "no image";
  const CommandResult result = example.run("data.on_bad_image=skip");
  CHECK(result.code == 1);
  CHECK(result.says("could be read"));
}
