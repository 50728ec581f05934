// The example's output folder: one run at a time, and behaviour when it cannot be written.
#include "examples/training/run_files.h"
#include "tests/examples/example.h"

#include <doctest/doctest.h>

#include <algorithm>

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace booster;

namespace {
namespace fs = std::filesystem;
const std::string endless = "train.epochs=100000 train.checkpoint_every=0";
}  // namespace

TEST_CASE("a second run in the same folder is refused by name and touches nothing") {
  const Example example;
  const std::string second = example.command(endless + " train.resume=never");
  const CommandResult both = example.run_and(
      "step 3/",
      fmt::format("{{ {}; echo second ended with $?; echo first is $pid; }} 2>&1; kill -TERM $pid",
                  second),
      example.command(endless));
  CHECK_MESSAGE(both.code == 128 + 15, both.output);
  CHECK_MESSAGE(both.says("second ended with 2"), both.output);
  const std::string owner = both.output.substr(both.output.find("first is ") + 9, 9);
  CHECK_MESSAGE(both.says("is in use; got process " + owner.substr(0, owner.find('\n')) + " on "),
                both.output);
  CHECK(example.metric_lines().at(0).at("step") == 1);
  CHECK_FALSE(fs::exists(example.output() / "run.lock"));
}

TEST_CASE("on two ranks a folder in use is refused by both") {
  const Example example;
  const std::string sets = endless + " booster.plugin=torch_ddp";
  const CommandResult both =
      example.run_and("step 3/",
                      fmt::format("{{ {}; echo second ended with $?; }} 2>&1; kill -TERM $pid",
                                  example.command(sets, "run --nproc_per_node 2")),
                      example.command(endless));
  CHECK_MESSAGE(both.says("second ended with 2"), both.output);
  CHECK(both.says("is in use; got process "));
}

TEST_CASE("the lock of a killed run is taken over, that of another machine is not") {
  const Example example;
  const CommandResult killed =
      example.run_and("step 2/", "kill -KILL $pid", example.command(endless));
  CHECK(killed.code == 128 + 9);
  const fs::path lock = example.output() / "run.lock";
  REQUIRE(fs::exists(lock));
  CHECK(example.run("train.epochs=1").code == 0);
  CHECK_FALSE(fs::exists(lock));

  std::ofstream(lock) << R"({"host": "far-away", "process": 77, "boot": "b", "started": "then"})";
  const CommandResult refused = example.run("train.epochs=1");
  CHECK(refused.code == 2);
  CHECK_MESSAGE(refused.says("got process 77 on far-away, started then"), refused.output);
  CHECK(refused.says("without " + lock.string()));
  std::ofstream(lock) << "no lock of ours";
  CHECK(example.run("train.epochs=1").code == 0);
}

TEST_CASE("a folder that is removed or replaced while it is written to is an error") {
  const Example example;
  const std::string out = "'" + example.output().string() + "'";
  // Removes the folder at once: rm alone might still be running when the checkpoint is written.
  const CommandResult removed = example.run_and(
      "step 3/", fmt::format("mv {0} {0}-gone; rm -rf {0}-gone", out), example.command(endless));
  CHECK_MESSAGE(removed.code == 1, removed.output);
  CHECK_MESSAGE(removed.says("was removed or replaced"), removed.output);
  CHECK(removed.says("is saved there again"));
  CHECK(fs::exists(example.output() / "checkpoint/latest"));

  fs::remove_all(example.output());
  const CommandResult replaced =
      example.run_and("img/s", fmt::format("rm {}/run.lock", out), example.command(endless));
  CHECK_MESSAGE(replaced.code == 1, replaced.output);
  CHECK(replaced.says("nothing more was written"));
  CHECK_FALSE(fs::exists(example.output() / "checkpoint"));
}

TEST_CASE("metrics that are removed or replaced during a training are an error at its end") {
  const Example example;
  const CommandResult removed =
      example.run_and("step 3/", fmt::format("rm '{}/metrics.jsonl'", example.output().string()),
                      example.command("train.epochs=100000 train.max_steps=300"));
  CHECK_MESSAGE(removed.code == 1, removed.output);
  CHECK_MESSAGE(removed.says("was removed or replaced during the training; its lines so far are"),
                removed.output);
  CHECK(example.metric_lines().back().contains("val_top1"));  // it began anew, and trained on
}

namespace {
std::vector<ino_t> synced_files;
}  // namespace

// Takes the place of the system's, which it calls.
extern "C" int fsync(int file) {
  struct stat status {};
  if (::fstat(file, &status) == 0) synced_files.push_back(status.st_ino);
  return static_cast<int>(::syscall(SYS_fsync, file));
}

TEST_CASE("a checkpoint's metrics are on the disk, and a resume keeps only those") {
  const TemporaryFolder folder;
  const auto is_synced = [&](const fs::path& path) {
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    return std::ranges::find(synced_files, status.st_ino) != synced_files.end();
  };
  int64_t bytes = 0;
  {
    example::RunFiles files(folder.path(), {}, "");
    files.add({{"step", 1}});
    bytes = files.metrics_bytes();
    CHECK(is_synced(folder / "metrics.jsonl"));
    CHECK(is_synced(folder.path()));
    files.add({{"step", 2}});
  }
  std::ofstream(folder / "metrics.jsonl", std::ios::app) << std::string(50, '\0');
  example::RunFiles resumed(folder.path(), {.step = 1, .metrics_bytes = bytes}, "");
  CHECK(folder.read("metrics.jsonl") == "{\"step\":1}\n");
}

TEST_CASE("a checkpoint that cannot be written is tried again, and only the last one is an error") {
  const Example example;
  fs::create_directories(example.output());
  std::ofstream(example.output() / "checkpoint") << "a file where the folder should be";
  const std::string sets = "train.checkpoint_every=1 train.epochs=2";
  const CommandResult failed = example.run(sets);
  CHECK_MESSAGE(failed.code == 1, failed.output);
  CHECK_MESSAGE(failed.says("; the training goes on"), failed.output);
  CHECK(failed.says("error: "));
  CHECK(example.metric_lines().size() == 8);  // it trained to the end

  const std::string action = fmt::format(
      "rm '{0}'; for i in $(seq 100); do test -e '{0}/latest' && echo tried again && break; "
      "sleep 0.1; done; kill -TERM $pid",
      (example.output() / "checkpoint").string());
  const CommandResult mended =
      example.run_and("; the training goes on", action,
                      example.command("train.checkpoint_every=1 train.epochs=100000"));
  CHECK_MESSAGE(mended.code == 128 + 15, mended.output);
  CHECK_MESSAGE(mended.says("tried again"), mended.output);
}

TEST_CASE("curves that cannot be drawn are a warning") {
  const Example example;
  fs::create_directories(example.output() / "curves.svg/in the way");
  const CommandResult result = example.run("train.epochs=1");
  CHECK_MESSAGE(result.code == 0, result.output);
  CHECK_MESSAGE(result.says("curves.svg"), result.output);
  CHECK(result.says("the training goes on"));
}

TEST_CASE("a profile or a diagnosis that cannot be written is a warning, and a stop saves first") {
  const Example example;
  for (const char* name : {"trace.json", "numerics.json"})
    fs::create_directories(example.output() / name / "in the way");
  const CommandResult ended =
      example.run("train.profile=1:1000 train.diagnose=1:1000 train.epochs=1");
  CHECK_MESSAGE(ended.code == 0, ended.output);
  for (const char* says : {"trace.json", "numerics.json", "the training goes on",
                           "no trace could be written", "numerics: fp32", "results in"})
    CHECK_MESSAGE(ended.says(says), ended.output);
  CHECK(example.has_checkpoint(3));
  CHECK(example.run("train.profile=4:5 train.epochs=2").code == 0);  // ends within the training
  CHECK(example.has_checkpoint(6));

  fs::remove_all(example.output() / "numerics.json");
  const CommandResult stopped = example.run_and(
      "step 9/", "kill -TERM $pid",
      example.command("train.profile=7:1000000 train.diagnose=1:1000000 train.epochs=100000"));
  CHECK_MESSAGE(stopped.code == 128 + 15, stopped.output);
  CHECK(stopped.says("the same command goes on"));
  CHECK(stopped.says("no trace could be written"));
  const fs::path saved = fs::canonical(example.output() / "checkpoint/latest/manifest.json");
  CHECK(fs::last_write_time(saved) <= fs::last_write_time(example.output() / "numerics.json"));
}

TEST_CASE("a stderr that is full or closed costs what it would have said alone") {
  const Example example;
  REQUIRE(example.run("train.epochs=1").code == 0);
  REQUIRE(example.run("train.epochs=2").code == 0);
  const fs::path newest = example.output() / "checkpoint/step-000000006/model.safetensors";
  fs::resize_file(newest, fs::file_size(newest) - 1);
  for (const char* stream : {"2>/dev/full", "2>&-"}) {
    const fs::path copy = example.output().parent_path() / "copy";
    fs::remove_all(copy);
    fs::copy(example.output(), copy, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    const CommandResult result =
        run_command(fmt::format("{{ {} --set train.output_dir='{}' {}; }}",
                                example.command("train.epochs=2"), copy.string(), stream));
    CHECK_MESSAGE(result.code == 0, result.output);
    CHECK_MESSAGE(result.says("resumed from step 3 of 6"), result.output);
  }
}

TEST_CASE("a log that cannot be written costs the log alone") {
  const Example example;
  const CommandResult full =
      run_command("{ " + example.command("train.epochs=1") + " 2>&1 >/dev/full; }");
  CHECK_MESSAGE(full.code == 0, full.output);
  CHECK_MESSAGE(full.says("stdout: cannot be written: No space left on device"), full.output);
  CHECK(full.output.find("stdout:") == full.output.rfind("stdout:"));
  CHECK(example.has_checkpoint(3));
  const CommandResult closed = run_command("{ { " + example.command("train.epochs=2") +
                                           " 2>/dev/null; echo $? >&2; } | true; }");
  CHECK_MESSAGE(closed.output == "0\n", closed.output);
  CHECK(example.has_checkpoint(6));
}

TEST_CASE("metrics go on behind the last whole line that is kept, wherever they end") {
  const TemporaryFolder folder;
  const std::string whole = "{\"step\":1}\n{\"step\":22}\n{\"step\":333}\n", added = "{\"x\":0}\n";
  for (size_t size = 0; size <= whole.size(); ++size)
    for (size_t keep = 0; keep <= whole.size() + 2; ++keep) {
      folder.write("m", whole.substr(0, size));
      const std::string kept = whole.substr(0, std::min(size, keep));
      const std::string lines = kept.substr(0, kept.rfind('\n') + 1);  // npos + 1 is 0
      example::Metrics metrics(folder / "m", static_cast<int64_t>(keep));
      CHECK(metrics.broken_bytes() == static_cast<int64_t>(kept.size() - lines.size()));
      metrics.add({{"x", 0}});
      CHECK(metrics.bytes() == static_cast<int64_t>((lines + added).size()));
      CHECK(folder.read("m") == lines + added);
    }
}

TEST_CASE("metrics that were cut short go on in a new line") {
  const Example example;
  REQUIRE(example.run("train.epochs=2 train.max_steps=4").code == 0);
  const fs::path metrics = example.output() / "metrics.jsonl";
  fs::resize_file(metrics, fs::file_size(metrics) - 7);
  const size_t lines = example.metric_lines().size();
  const CommandResult more = example.run("train.epochs=2");
  CHECK_MESSAGE(more.code == 0, more.output);
  CHECK(more.says("its last line was cut short"));
  const auto after = example.metric_lines();
  CHECK(after.size() == lines - 1 + 3);  // without the incomplete line; two steps and a validation
  for (const auto& line : after) CHECK(line.is_object());
}
