// The example with untrusted names and values: class folders that are not UTF-8, and the program's
// own state in a checkpoint.
#include "booster/checkpoint/folder/checkpoint.h"
#include "booster/checkpoint/folder/manifest.h"
#include "platform/files/sha256.h"
#include "tests/capture_part.h"
#include "tests/examples/example.h"

#include <doctest/doctest.h>

#include <functional>
#include <span>

using namespace booster;

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string latin = "caf\xe9 \x1b[31m";    // é of ISO 8859-1, and red letters
const std::string shown = "caf\\xe9 \\x1b[31m";  // as it is displayed
const std::string trains = "train.epochs=2 optimizer.lr=0.01 ";

// Changes the state and corrects the manifest.
void change_state(const fs::path& checkpoint, const std::function<void(Json&)>& change) {
  std::ifstream file(checkpoint / "state.json");
  Json state = Json::parse(file);
  change(state);
  const std::string text = state.dump();
  std::ofstream(checkpoint / "state.json") << text;
  Manifest manifest = read_manifest(checkpoint);
  for (ManifestFile& one : manifest.files)
    if (one.name == "state.json")
      one = {one.name, text.size(), sha256(std::as_bytes(std::span(text)))};
  std::ofstream(checkpoint / manifest_name) << manifest.to_text();
}

}  // namespace

TEST_CASE("class folders that are not UTF-8 are trained on, kept, told and found again") {
  const Example example(20);
  fs::rename(example.image("dark"), example.image(latin));
  const CommandResult first = example.run(trains + "train.max_steps=3");
  REQUIRE_MESSAGE(first.code == 0, first.output);
  const CommandResult more = example.run(trains);
  REQUIRE_MESSAGE(more.code == 0, more.output);
  CHECK(more.says("resumed from step 3"));
  const Json names = {shown, "light"};
  CHECK(Json::parse(example.record()).at("data").at("classes") == names);
  CHECK(Json::parse(example.read("worst_images.json")).at("images").at(0).contains("true"));

  const auto infer = [&](const std::string& words) {
    const CommandResult result = run_command(example.command() + words);
    CHECK_MESSAGE(result.code == 0, result.output);
    CHECK_FALSE(result.says("\x1b"));
    return result;
  };
  const auto evaluated = [&] { return Json::parse(example.read("evaluation.json")); };
  infer(" --evaluate");
  CHECK(evaluated().at("classes").at(0).at("name") == shown);
  CHECK(example.read("confusion.svg").find("caf\\xe9") != std::string::npos);
  const fs::path folder = example.root() / "more";
  Example::write_classes(folder, 7);
  fs::rename(folder / "dark", folder / latin);
  infer(fmt::format(" --evaluate '{}'", folder.string()));
  CHECK(evaluated().at("images") == 14);
  const std::string file = (example.root() / "one\xe9.jpg").string();
  fs::copy(folder / latin / "image_0001.jpg", file);
  CHECK(infer(" --predict '" + file + "'").says(shown));
  const CommandResult as_json = infer(" --predict '" + file + "' --json");
  CHECK(Json::parse(as_json.output).at("predictions").at(0).at("class") == shown);
  CHECK(Json::parse(as_json.output).at("file").get<std::string>().ends_with("one\\xe9.jpg"));
}

TEST_CASE("two class folders that would be written alike are refused") {
  const Example example;
  fs::rename(example.image("dark"), example.image("a\xff"));
  fs::rename(example.image("light"), example.image("a\\xff"));
  const CommandResult result = example.run(trains);
  CHECK(result.code == 1);
  CHECK_MESSAGE(result.says("two classes are written alike; got a\\xff twice"), result.output);
}

TEST_CASE("images may lie at a path that is not UTF-8") {
  const Example example;
  const fs::path root = example.root().parent_path() / "d\xff";
  fs::rename(example.root(), root);
  const std::string command = fmt::format("DATA='{}' {} --set 'data.root=$DATA'", root.string(),
                                          example.command(trains, "", false));
  const CommandResult result = run_command(command);
  REQUIRE_MESSAGE(result.code == 0, result.output);
  CHECK(Json::parse(example.record()).at("data").at("root").get<std::string>().ends_with("d\\xff"));
  const CommandResult again = run_command(command);
  CHECK_MESSAGE(again.code == 0, again.output);
  CHECK_FALSE(again.says("changed from"));
}

TEST_CASE("a checkpoint's numbers of the program are checked, and metrics are not shortened") {
  const Example example;
  REQUIRE(example.run(trains).code == 0);
  const std::string metrics = example.metrics();
  const fs::path checkpoint = example.output() / "checkpoint/step-000000006";
  Json whole;
  change_state(checkpoint, [&](Json& state) { whole = state; });
  const struct {
    const char *place, *value, *says;
  } cases[] = {
      {"/metrics_bytes", "-1", "extra.metrics_bytes: got -1, want a whole number from 0 to 2^53"},
      {"/metrics_bytes", "1e300", "extra.metrics_bytes: got 1e+300"},
      {"/epoch", "9223372036854775807", "extra.epoch: got 9223372036854775807"},
      {"/epoch", "\"2\"", "extra.epoch: got \"2\""},
      {"/skipped", "null", "extra.skipped: got null"},
      {"/validated_step", "-2", "extra.validated_step: got -2, want a whole number from -1"},
      {"/validated_parts", "1.5", "extra.validated_parts: got 1.5"},
      {"/val_top1", "[]", "extra.val_top1: got array, want a finite number"},
      {"/best", "3", "extra.best: got 3, want an object"},
      {"/best/waited", "-1", "extra.best.waited: got -1"},
      {"/best/step", "1e18", "extra.best.step: got 1e+18"},
      {"/best/value", "\"x\"", "extra.best.value: got \"x\""}};
  for (const auto& [place, value, says] : cases) {
    CAPTURE_PART(place);
    CAPTURE_PART(value);
    change_state(checkpoint, [&, place = place, value = value](Json& state) {
      state = whole;
      state["extra"][Json::json_pointer(place)] = Json::parse(value);
    });
    const CommandResult result = example.run(trains);
    CHECK(result.code == 1);
    CHECK_MESSAGE(result.says(std::string("state.json: ") + says), result.output);
    CHECK(example.metrics() == metrics);
  }
}

TEST_CASE("no text of a checkpoint steers the terminal") {
  const Example example;
  REQUIRE(example.run(trains).code == 0);
  change_state(example.output() / "checkpoint/step-000000006", [](Json& state) {
    state["settings"]["data.x"] = "\x1b]0;owned\x07";
    state["settings"]["data.\x1b[2J"] = 1;
    state["plugin"] = "\x1b[2Jplugin";
  });
  const CommandResult result = example.run(trains);
  CHECK_MESSAGE(result.code == 0, result.output);
  CHECK(result.says("data.x: changed from \\x1b]0;owned\\x07 to nothing"));
  CHECK(result.says("plugin: changed from \\x1b[2Jplugin to single"));
  CHECK_FALSE(result.says("\x1b"));
  CHECK_FALSE(result.says("\x07"));
}
