// The example that trains language models, run as a user runs it.
#include "tests/capture_part.h"
#include "tests/examples/text_example.h"

#include <cmath>
#include <map>

#include <sys/stat.h>

using namespace booster;

namespace {

// Returns the entropy of the text's byte frequencies, in nats per byte.
double unigram_entropy() {
  std::map<char, double> counts;
  for (const char c : std::string(TextExample::sentence)) ++counts[c];
  const double total = static_cast<double>(std::string(TextExample::sentence).size());
  double entropy = 0;
  for (const auto& [c, n] : counts) entropy -= n / total * std::log(n / total);
  return entropy;
}

}  // namespace

TEST_CASE("language_model learns its text and writes it") {
  const TextExample example;
  const std::string sets =
      "model.embd_pdrop=0 model.attn_pdrop=0 model.resid_pdrop=0 train.max_steps=150 "
      "lr_scheduler.total_steps=150";
  const CommandResult result = example.run(sets);
  REQUIRE_MESSAGE(result.code == 0, result.output);
  const nlohmann::json last = example.metrics().back();
  CHECK(last["step"] == 150);
  CHECK(unigram_entropy() > 2.5);
  CHECK_MESSAGE(last["val_loss"] < 0.2, result.output);
  CHECK_MESSAGE(result.says("fox jumps over the lazy dog. "), result.output);
  // A finished training that is run again only writes the sample again.
  const CommandResult again = example.run(sets);
  CHECK_MESSAGE(again.says("resumed from step 150 of 150"), again.output);
  CHECK(again.says("fox jumps over the lazy dog. "));
  CHECK(example.metrics().back() == last);
}

TEST_CASE("language_model without a file trains on a text of its own, and says so") {
  const TextExample example;
  const CommandResult result = example.run("data.file=null data.stories=20 train.max_steps=1");
  CHECK_MESSAGE(result.code == 0, result.output);
  CHECK(result.says("warning: no data.file; the run trains on stories that it makes up"));
}

TEST_CASE("language_model goes on bit for bit, from an end and from a signal") {
  const TextExample example;
  REQUIRE(example.run("train.max_steps=14", "whole").code == 0);
  const std::vector<double> want = example.losses("whole");
  REQUIRE(want.size() == 14);
  for (const char* steps : {"5", "9", "14"})  // an epoch has 9 steps
    REQUIRE(example.run(fmt::format("train.max_steps={}", steps)).code == 0);
  CHECK(example.losses() == want);

  const CommandResult stopped =
      Example().run_and("step 3:", "kill -TERM $pid",
                        "exec env " + example.command("train.epochs=1000000", "signal"));
  CHECK_MESSAGE(stopped.code == 143, stopped.output);
  CHECK(stopped.says("stopped by signal 15"));
  const size_t done = example.losses("signal").size();
  REQUIRE(example.run(fmt::format("train.max_steps={}", done + 2), "signal").code == 0);
  REQUIRE(example.run(fmt::format("train.max_steps={}", done + 2), "all").code == 0);
  CHECK(example.losses("signal") == example.losses("all"));
}

TEST_CASE("language_model stops in a validation without a result, and validates when it goes on") {
  const TextExample example;
  std::string text;
  for (int i = 0; i < 6000; ++i) text += TextExample::sentence;
  example.folder().write("text", text);
  // One epoch of one step, then a validation that takes seconds.
  const std::string sets = "data.validation_fraction=0.998 data.batch_size=16 train.epochs=2";
  const CommandResult stopped = Example().run_and("step 1:", "sleep 0.2; kill -TERM $pid",
                                                  "exec env " + example.command(sets));
  CHECK_MESSAGE(stopped.code == 143, stopped.output);
  CHECK_MESSAGE(stopped.says("stopped by signal 15 after step 1;"), stopped.output);
  CHECK(example.metrics().size() == 1);
  const CommandResult more = example.run(sets);
  CHECK_MESSAGE(more.code == 0, more.output);
  CHECK(more.says("resumed from step 1 of 2"));
  std::vector<std::string> story;
  for (const auto& line : example.metrics())
    story.push_back(fmt::format("{} {}", line["step"].dump(), line.contains("val_loss")));
  CHECK(story == std::vector<std::string>{"1 false", "1 true", "2 false", "2 true"});
}

TEST_CASE(
    "language_model goes on where neither metrics nor checkpoints can be written, to its end") {
  const TextExample example;
  // Files of tokens are read where they lie; a text's tokens would have to be written first.
  std::string tokens;
  for (int i = 0; i < 60; ++i)
    for (const char c : std::string(TextExample::sentence)) tokens += {c, '\0'};
  example.folder().write("tokens.bin", tokens);
  const std::string sets = fmt::format("data.file=null data.token_files=[\"{}\"] train.max_steps=9",
                                       (example.folder() / "tokens.bin").string());
  // Limits files to one block, to imitate a full disk.
  const CommandResult full =
      run_command("{ trap '' XFSZ; ulimit -f 1; " + example.command(sets) + "; }");
  CHECK_MESSAGE(full.code == 1, full.output);  // the last checkpoint must be saved
  CHECK_MESSAGE(full.says("metrics.jsonl: cannot be written"), full.output);
  CHECK_MESSAGE(full.says("; the training goes on"), full.output);
  CHECK_MESSAGE(full.says("validation after step 9"), full.output);
  CHECK(full.says("error: "));
  CHECK_FALSE(example.metrics().empty());

  // If another file has its name, a checkpoint is saved at a later step.
  const auto checkpoint = example.folder() / "later/checkpoint";
  example.folder().write("later/checkpoint", "a file where the folder should be");
  const CommandResult later = Example().run_and(
      "; the training goes on",
      fmt::format("rm '{0}'; for i in $(seq 100); do test -e '{0}/latest' && echo tried again && "
                  "break; sleep 0.1; done; kill -TERM $pid",
                  checkpoint.string()),
      "exec env " + example.command("train.checkpoint_every=1 train.epochs=1000000", "later"));
  CHECK_MESSAGE(later.code == 143, later.output);
  CHECK_MESSAGE(later.says("tried again"), later.output);
}

TEST_CASE(
    "language_model: two ranks, and two batches to a step, are one rank with twice the batch") {
  const TextExample example;
  const std::string sets =
      "model.embd_pdrop=0 model.attn_pdrop=0 model.resid_pdrop=0 train.max_steps=8";
  REQUIRE(example.run(sets, "one").code == 0);
  const CommandResult ranks = example.run(sets + " booster.plugin=torch_ddp data.batch_size=4",
                                          "two", "run --nproc_per_node 2");
  REQUIRE_MESSAGE(ranks.code == 0, ranks.output);
  REQUIRE(example.run(sets + " data.batch_size=4 train.accumulate=2", "parts").code == 0);
  const auto want = example.metrics("one");
  REQUIRE(want.size() == 9);
  for (const char* out : {"two", "parts"}) {
    CAPTURE(out);
    const auto got = example.metrics(out);
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      const char* name = i < 8 ? "loss" : "val_loss";
      const double loss = want[i][name];
      CHECK(got[i][name].get<double>() == doctest::Approx(loss).epsilon(1e-4));
    }
  }
}

// 75 windows make 9 batches of 8; the last 3 windows are dropped.
TEST_CASE("language_model: the batches that are left of an epoch make a step of their own") {
  const TextExample example;
  const std::string sets = "model.embd_pdrop=0 model.attn_pdrop=0 model.resid_pdrop=0 ";
  const auto losses = [&](const std::string& more, const std::string& out) {
    const CommandResult result = example.run(sets + "data.batch_size=8 " + more, out);
    REQUIRE_MESSAGE(result.code == 0, result.output);
    std::vector<double> all;
    for (const auto& line : example.metrics(out))
      all.push_back(line.contains("loss") ? line["loss"] : line["val_loss"]);
    return all;
  };
  const auto by_four = losses("train.epochs=2 train.accumulate=4", "by_four");
  CHECK(by_four.size() == 2 * (3 + 1));
  const auto as_many = losses("train.epochs=2 train.accumulate=9", "as_many");
  CHECK(as_many.size() == 2 * (1 + 1));
  CHECK(losses("train.epochs=2 train.accumulate=100", "more") == as_many);
  // One mean over all rows gives the same if all rows count.
  const auto rows = losses("train.epochs=2 train.accumulate=9 booster.loss_mean=rows", "rows");
  REQUIRE(rows.size() == as_many.size());
  for (size_t i = 0; i < rows.size(); ++i)
    CHECK(rows[i] == doctest::Approx(as_many[i]).epsilon(1e-4));
}

TEST_CASE("language_model trains, validates and writes on a mesh as in one process") {
  const TextExample example;
  const std::string sets =
      "model.embd_pdrop=0 model.attn_pdrop=0 model.resid_pdrop=0 train.max_steps=6 "
      "train.clip_grad_norm=1 ";
  const CommandResult alone = example.run(sets, "one");
  REQUIRE_MESSAGE(alone.code == 0, alone.output);
  const auto want = example.metrics("one");
  const std::pair<int, const char*> meshes[] = {
      {2, R"("tp_size":2,"parallel_output":true)"},
      {2, R"("tp_size":2,"sequence_parallelism_mode":"split_gather")"},
      {2, R"("sp_size":2,"sequence_parallelism_mode":"all_to_all")"},
      {2, R"("sp_size":2,"sequence_parallelism_mode":"ring_attn")"},
      {2, R"("pp_size":2,"pp_style":"zero_bubble","num_microbatches":4)"},
      {4, R"("tp_size":2,"pp_size":2)"}};
  int number = 0;
  for (const auto& [ranks, mesh] : meshes) {
    CAPTURE_PART(mesh);
    const std::string out = fmt::format("mesh{}", ++number);
    const CommandResult result =
        example.run(sets + fmt::format(R"(booster.plugin={{"name":"hybrid_parallel",{}}})", mesh),
                    out, fmt::format("run --nproc_per_node {}", ranks));
    REQUIRE_MESSAGE(result.code == 0, result.output);
    const auto got = example.metrics(out);
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) {
      const char* name = i + 1 < got.size() ? "loss" : "val_loss";
      CHECK(got[i][name].get<double>() ==
            doctest::Approx(want[i][name].get<double>()).epsilon(1e-4));
    }
    // The sample is drawn with the same random values.
    const std::string tail = alone.output.substr(alone.output.rfind("results in"));
    CHECK_MESSAGE(result.says(tail.substr(tail.find('\n') + 1, 20)), result.output);
  }
}

TEST_CASE("language_model tells what it cannot train on, and leaves no folder") {
  const TextExample example;
  example.folder().write("short", std::string(40, 'x'));
  example.folder().write("empty", "");
  const std::string root = example.folder().path().string();
  REQUIRE(::mkfifo((root + "/pipe").c_str(), 0600) == 0);
  struct Mistake {
    std::string set;
    int code;
    std::string says;
  };
  for (const auto& [set, code, says] : std::vector<Mistake>{
           {"data.file=/nowhere/text", 1,
            "data.file: /nowhere/text: cannot open: No such file or directory"},
           {"data.file=" + root, 1, "got a folder, want a regular file"},
           {"data.file=" + root + "/pipe", 1, "got a pipe, want a regular file"},
           {"data.file=/dev/zero", 1, "got a device, want a regular file"},
           {"data.file=" + root + "/empty", 1, "got an empty file"},
           {"data.token_files=[\"a\"]", 2, "data: several sources"},
           {"data.document_end=<end>", 2, "data.document_end: no such token; got <end>"},
           {"data.tokens=33", 2, "data.tokens: more than the model has positions; got 33"},
           {"data.token=16", 2, "did you mean tokens?"},
           {"model.vocab_size=257", 2, "model.vocab_size: does not hold every byte"},
           {"model.n_head=3", 2, "3 heads of 32"},
           {"model={\"name\":\"mlp\",\"sizes\":[2,2]}", 2, "reads no text; got mlp"},
           {"model={\"name\":\"bert\"}", 2, "writes no text; got bert"}}) {
    CAPTURE_PART(set);
    const CommandResult result = example.run(set);
    CHECK_MESSAGE(result.code == code, result.output);
    CHECK_MESSAGE(result.says(says), result.output);
    CHECK_FALSE(example.exists("out"));
  }
  // What the tokens of a text tell.
  for (const auto& [set, code, says] : std::vector<Mistake>{
           {"data.file=" + root + "/short", 1, "rows to train on and 1 to validate on"},
           {"data.batch_size=4000", 2, "no full batch; got 75 samples"}}) {
    CAPTURE_PART(set);
    const CommandResult result = example.run(set, "late");
    CHECK_MESSAGE(result.code == code, result.output);
    CHECK_MESSAGE(result.says(says), result.output);
  }
}

TEST_CASE("language_model trains a GPT-2 unless a config names another model") {
  const TextExample example;
  const auto check = [&](const std::string& config) {
    example.folder().write("config.json", config);
    return run_command(fmt::format("'{}/examples/language_model' --check --config '{}'",
                                   build_folder().string(),
                                   (example.folder() / "config.json").string()));
  };
  CHECK(check("{}").code == 0);
  const auto llama = [&](int tokens) {
    return check(fmt::format(R"({{"model": {{"name": "llama", "hidden_size": 32,
        "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2,
        "max_position_embeddings": 32}},
        "data": {{"tokens": {}}}}})",
                             tokens));
  };
  CHECK(llama(32).code == 0);
  CHECK(llama(33).says("want at most 32, which is model.max_position_embeddings"));
  const CommandResult images = check(R"({"model": {"name": "resnet20"}})");
  CHECK(images.code == 2);
  CHECK(images.says("reads no text; got resnet20, want gpt2"));
}

TEST_CASE("language_model ends with an error where its folder, lock or metrics are taken away") {
  for (const std::string gone : {"out", "out/run.lock", "out/metrics.jsonl"}) {
    CAPTURE(gone);
    const TextExample example;
    const std::string command =
        example.command("train.epochs=100000 train.max_steps=200 train.checkpoint_every=0");
    const CommandResult ran = run_command(fmt::format(
        "cd '{}' && {{ {} > log 2>&1 & pid=$!; until grep -qs 'step 3:' log || ! kill -0 $pid; do "
        "sleep 0.05; done; mv {} gone; wait $pid; code=$?; cat log; exit $code; }}",
        example.folder().path().string(), command, gone));
    CHECK_MESSAGE(ran.code == 1, ran.output);
    CHECK_MESSAGE(ran.says("removed or replaced during the training"), ran.output);
    CHECK(example.exists("out/checkpoint") == (gone == "out/metrics.jsonl"));
  }
}
