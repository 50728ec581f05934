// Strategies, plugins and models from shared libraries that a config names, in programs run as by
// users.
#include "booster/config/abi_tags.h"
#include "booster/config/registry.h"
#include "tests/booster/command.h"
#include "tests/booster/temporary_folder.h"

#include <fmt/format.h>

using namespace booster;

namespace {

std::string library(const std::string& name) {
  const char* folder = name.starts_with("own_") ? "examples" : "tests";
  return (build_folder() / folder / ("lib" + name + ".so")).string();
}

// Returns the output of `booster config check` for a config with this section "booster".
CommandResult check_section(const std::string& section) {
  const TemporaryFolder folder;
  folder.write("config.json", "{\"booster\":\n" + section + "}");
  return run_booster("config check '" + (folder / "config.json").string() + "'");
}

CommandResult check_library(const std::string& path) {
  return check_section(fmt::format(R"({{"libraries": ["{}"]}})", path));
}

}  // namespace

TEST_CASE("the example of an own strategy trains") {
  const TemporaryFolder folder;
  const CommandResult result = run_command(
      fmt::format("OMP_NUM_THREADS=1 '{}' --set booster.libraries='[\"{}\"]'"
                  " --set booster.mixed_precision='{{\"name\":\"fp16_static\",\"scale\":4096}}'"
                  " --set train.output_dir='{}' --set model.img_size=16"
                  " --set train.max_steps=2 --set train.log_every=1 --set train.clip_grad_norm=1",
                  (build_folder() / "examples/vit_caltech101").string(), library("own_strategy"),
                  (folder / "out").string()));
  CHECK_MESSAGE(result.code == 0, result.output);
  CHECK(result.says("fp16_static on single"));
  const std::string metrics = folder.read("out/metrics.jsonl");
  CHECK_MESSAGE(metrics.find("\"loss_scale\":4096.0") != std::string::npos, metrics);
}

TEST_CASE("the example of an own plugin trains on two ranks") {
  const TemporaryFolder folder;
  const CommandResult result = run_command(fmt::format(
      "OMP_NUM_THREADS=1 '{}' run --nproc_per_node 2 '{}' --set booster.libraries='[\"{}\"]'"
      " --set booster.plugin='{{\"name\":\"local_sgd\",\"every\":2}}'"
      " --set train.output_dir='{}' --set model.img_size=16 --set train.max_steps=3",
      (build_folder() / "tools/booster").string(),
      (build_folder() / "examples/vit_caltech101").string(), library("own_plugin"),
      (folder / "out").string()));
  CHECK_MESSAGE(result.code == 0, result.output);
  CHECK(result.says("fp32 on local_sgd"));
}

TEST_CASE("the example of an own model trains, is planned, and has its options checked") {
  const TemporaryFolder folder;
  const std::string program = (build_folder() / "examples/vit_caltech101").string();
  const CommandResult trained = run_command(fmt::format(
      "OMP_NUM_THREADS=1 '{}' --set booster.libraries='[\"{}\"]' --set model.name=patch_encoder"
      " --set train.output_dir='{}' --set model.img_size=16 --set train.max_steps=2",
      program, library("own_model"), (folder / "out").string()));
  CHECK_MESSAGE(trained.code == 0, trained.output);
  const auto config = [&](const std::string& model) {
    folder.write("config.json",
                 fmt::format(R"({{"booster": {{"libraries": ["{}"]}}, "model": {}}})",
                             library("own_model"), model));
    return "'" + (folder / "config.json").string() + "'";
  };
  const std::string good = config(R"({"name": "patch_encoder", "features": 32, "layers": 5})");
  const CommandResult plan = run_booster("plan --batch_size 2 --config " + good);
  CHECK_MESSAGE(plan.code == 0, plan.output);
  CHECK(plan.says("patch_encoder"));
  const auto check = [&](const std::string& model) {
    return run_booster("config check " + config(model));
  };
  CHECK(check(R"({"name": "patch_encoder"})").code == 0);
  CHECK(check(R"({"name": "patch_encodr"})").says("did you mean patch_encoder?"));
  CHECK(check(R"({"name": "patch_encoder", "feature": 32})").says("features"));
  CHECK(check(R"({"name": "patch_encoder", "layers": 0})").says("model.layers"));
}

TEST_CASE("options of an own strategy are checked and listed like those of a built-in") {
  const std::string named = fmt::format(R"("libraries": ["{}"])", library("own_strategy"));
  CHECK(check_section(fmt::format(R"({{{}, "mixed_precision": "fp16_static"}})", named)).code == 0);
  const CommandResult wrong = check_section(
      fmt::format(R"({{{}, "mixed_precision": {{"name": "fp16_static", "scale": 0}}}})", named));
  CHECK(wrong.code == 2);
  CHECK(wrong.says("booster.mixed_precision.scale: out of range; got 0"));
  const CommandResult op = check_section(fmt::format(
      R"({{{}, "mixed_precision": {{"name": "fp16_static", "keep_fp32": ["lineer"]}}}})", named));
  CHECK(op.code == 2);
  CHECK_MESSAGE(op.says("did you mean linear?"), op.output);
  const std::string option = "--library '" + library("own_strategy") + "'";
  CHECK(run_booster("list " + option + " fp16_static").says("what losses are multiplied by"));
  CHECK(run_booster("matrix " + option).says("fp16_static"));
  CHECK(run_booster("config schema " + option).says("\"const\": \"fp16_static\""));
  const TemporaryFolder folder;
  folder.write("c.json", R"({"booster": {"mixed_precision": "fp16_static"}})");
  const std::string file = " '" + (folder / "c.json").string() + "'";
  CHECK(run_booster("config check " + option + file).says("valid"));
  CHECK(run_booster("config check" + file).code == 2);
}

TEST_CASE("a library that cannot be used is an error that says why, with its place") {
  const TemporaryFolder folder;
  folder.write("text.so", "no library at all");
  const std::pair<std::string, const char*> mistakes[] = {
      {(folder / "none.so").string(), "no such file; got '"},
      {"libnone.so", "no such file; got 'libnone.so'"},
      {folder.path().string(), "not a regular file; got '"},
      {(folder / "text.so").string(), "text.so' cannot be loaded: file too short"},
      {library("silent"), "libsilent.so' adds nothing to booster; want BOOSTER_LIBRARY"},
      {library("older"), "against another version of booster; got 0.0.9 with libstdc++, want 0."},
      {library("taken"), "libtaken.so': mixed_precision: name already registered; got fp16"},
  };
  for (const auto& [path, says] : mistakes) {
    const CommandResult result = check_library(path);
    CHECK(result.code == 2);
    CHECK_MESSAGE(result.says("config.json:2:16: booster.libraries: library: "), result.output);
    CHECK_MESSAGE(result.says(says), result.output);
  }
}

TEST_CASE("nothing of a library for another version runs") {
  const CommandResult result = check_library(library("older"));
  CHECK(result.code == 2);
  CHECK_MESSAGE(!result.says("code of libolder.so"), result.output);
}

TEST_CASE("an ABI tag is found anywhere in a file, and is text that ends") {
  using Tags = std::set<std::string>;
  const TemporaryFolder folder;
  const auto tags = [&](const std::string& text) {
    folder.write("file", text);
    return abi_tags(folder / "file");
  };
  const std::string begin = "booster-abi: ", zero(1, '\0');
  CHECK(tags("") == Tags());
  CHECK(tags(begin) == Tags());
  CHECK(tags(begin + zero) == Tags());
  CHECK(tags(begin + "0.1.0") == Tags());
  CHECK(tags(begin + "0.1.0\n" + zero) == Tags());
  CHECK(tags(begin + std::string(500, 'x') + zero) == Tags());
  CHECK(tags("ELF" + zero + begin + "0.1.0" + zero + "more") == Tags{"0.1.0"});
  CHECK(tags(begin + begin + "0.1" + zero + begin + "0.2" + zero) ==
        Tags{"0.1", "0.2", begin + "0.1"});
  CHECK(abi_tags(library("own_strategy")) ==
        Tags{std::string(abi_tag).substr(begin.size())});
}

TEST_CASE("libraries are a list of paths") {
  for (const char* value : {R"("libone.so")", "[1]", "{}", "null"}) {
    const CommandResult result = check_section(fmt::format(R"({{"libraries": {}}})", value));
    CHECK(result.code == 2);
    CHECK_MESSAGE(result.says("booster.libraries: wrong type; got"), result.output);
  }
}

TEST_CASE("a library that is named twice is loaded once") {
  const std::string path = library("alone");
  CHECK(
      check_section(fmt::format(R"({{"libraries": ["{}", "{}"], "plugin": "quiet"}})", path, path))
          .code == 0);
}

TEST_CASE("a pair that does not work together is refused before a program runs") {
  const std::string named = fmt::format(R"("libraries": ["{}"])", library("alone"));
  CHECK(check_section(fmt::format(R"({{{}, "mixed_precision": "alone"}})", named)).code == 0);
  const CommandResult refused = check_section(
      fmt::format(R"({{{}, "mixed_precision": "alone", "plugin": "torch_ddp"}})", named));
  CHECK(refused.code == 2);
  CHECK(refused.says("alone does not work with torch_ddp: it wants to be alone; use fp32"));
  const CommandResult matrix = run_booster("matrix --library '" + library("alone") + "'");
  CHECK(matrix.says("alone with torch_ddp: it wants to be alone; use fp32"));
}

// This test has its own copy of booster, like a program linked with the layers' static libraries.
TEST_CASE("a library for another copy of booster is refused, and nothing is added") {
  const auto names = precision_registry().names();
  CHECK_THROWS_WITH_AS(load_library(library("own_strategy")),
                       doctest::Contains("another copy of booster than the program"), Error);
  CHECK(precision_registry().names() == names);
}
