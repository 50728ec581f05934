// `booster inspect`, as a user runs it.
#include "booster/checkpoint/folder/checkpoint.h"
#include "booster/checkpoint/safetensors/safetensors.h"
#include "tests/booster/command.h"
#include "tests/booster/temporary_folder.h"
#include "tests/checkpoint_contents.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace booster;
using namespace booster::test;

TEST_CASE("inspect shows a valid file and names the broken rule of another") {
  const TemporaryFolder folder;
  const std::string path = (folder / "x.safetensors").string();
  save_safetensors(path, {{"blocks.0.weight", ones({2, 3})}, {"é\x1b[2J", ones({1})}},
                   {{"format", "pt"}});
  const CommandResult good = run_booster("inspect " + in_quotes(path));
  CHECK(good.code == 0);
  CHECK(good.says("blocks.0.weight"));
  CHECK(good.says("F32   (2, 3)"));
  CHECK(good.says("metadata format = \"pt\""));
  CHECK_FALSE(good.says("\x1b"));
  std::string bytes = folder.read("x.safetensors");
  folder.write("x.safetensors", bytes + "tail");
  const CommandResult bad = run_booster("inspect " + in_quotes(path));
  CHECK(bad.code == 1);
  CHECK(bad.says("trailing bytes; got 32 bytes of data, want 28"));
  CHECK(run_booster("inspect " + in_quotes(folder / "none")).code == 1);
  const TemporaryFolder empty;
  CHECK(
      run_booster("inspect " + in_quotes(empty.path())).says("nothing to inspect in this folder"));
}

TEST_CASE("inspect shows a model in several files, and where its index is wrong") {
  const TemporaryFolder folder;
  std::filesystem::copy(test::golden_folder() + "/booster/sharded", folder / "model");
  const std::string index = "model/model.safetensors.index.json";
  for (const std::string& path : {std::string("model"), index}) {
    const CommandResult good = run_booster("inspect " + in_quotes(folder / path));
    CHECK(good.code == 0);
    CHECK(good.says("1.bias"));
    CHECK(good.says("4 tensors in 3 files: valid"));
  }
  const auto json =
      nlohmann::json::parse(run_booster("inspect --json " + in_quotes(folder / "model")).output);
  CHECK(json["total_size"] == 156);
  CHECK(json["tensor_files"].size() == 3);
  std::string text = folder.read(index);
  folder.write(index, text.replace(text.find("156"), 3, "155"));
  const CommandResult bad = run_booster("inspect " + in_quotes(folder / "model"));
  CHECK(bad.code == 1);
  CHECK(bad.says("total_size; got 155, want 156"));
}

TEST_CASE("what a manifest says of itself reaches the terminal in plain letters") {
  const TemporaryFolder root;
  CheckpointContents contents;
  contents.model = {{"a", ones({1})}};
  contents.about = {{"by", "x\u001b[2J\u202e"}};
  const auto folder = save_checkpoint(root.path(), contents);
  const CommandResult result = run_booster("inspect " + in_quotes(folder));
  CHECK(result.code == 0);
  CHECK(result.says("\\u001b[2J\\u202e"));
  CHECK_FALSE(result.says("\u001b"));
}

TEST_CASE("names of files and folders reach the terminal in plain letters") {
  const TemporaryFolder root;
  const std::string odd = "a\x1b]0;x\x07\n\xff";
  CheckpointContents contents;
  contents.model = {{"a", ones({1})}};
  save_checkpoint(root / odd, contents);
  save_safetensors(root / (odd + ".safetensors"), contents.model);
  const auto golden = test::golden_folder() + "/booster/sharded";
  std::filesystem::copy(golden, root / ("model" + odd));
  root.write("flight" + odd + "/flight-0.json", R"({"rank": 0, "size": 1, "entries": []})");
  for (const std::string& path :
       {odd, odd + "/step-000000000", odd + ".safetensors", "model" + odd, "flight" + odd}) {
    const CommandResult result = run_booster("inspect " + in_quotes(root / path));
    CHECK_MESSAGE(result.code == 0, result.output);
    CHECK_MESSAGE(result.says("a\\x1b]0;x\\x07\\n\\xff"), result.output);
    CHECK_FALSE(result.says("\x1b"));
  }
  const std::string model = odd + "/step-000000000/model.safetensors";
  root.write(model, root.read(model) + "more");
  const CommandResult broken = run_booster("inspect " + in_quotes(root / odd));
  CHECK(broken.code == 1);
  CHECK_FALSE(broken.says("\x1b"));
}

TEST_CASE("a manifest without files is no checkpoint") {
  const TemporaryFolder root;
  CheckpointContents contents;
  contents.model = {{"a", ones({1})}};
  const auto folder = save_checkpoint(root.path(), contents);
  auto manifest = nlohmann::json::parse(root.read("step-000000000/manifest.json"));
  manifest["files"] = nlohmann::json::array();
  root.write("step-000000000/manifest.json", manifest.dump());
  for (const auto& path : {folder, root.path()})
    for (const char* option : {"", "--json "}) {
      const CommandResult result = run_booster("inspect " + (option + in_quotes(path)));
      CHECK(result.code == 1);
      CHECK_MESSAGE(result.says("not a manifest: it names no file"), result.output);
    }
}
