// The example with a model that it has trained: --evaluate and --predict.
#include "tests/booster/example.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;

namespace {

// Dark and light images are told apart after a few steps.
struct Trained : Example {
  Trained() : Example(20) {
    const CommandResult result = run("train.epochs=2 optimizer.lr=0.01");
    REQUIRE_MESSAGE(result.code == 0, result.output);
  }
};

std::vector<nlohmann::json> json_lines(const std::string& output) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(output);
  for (std::string line; std::getline(text, line);)
    if (line.starts_with("{")) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

nlohmann::json evaluation(const Example& example) {
  return nlohmann::json::parse(example.read("evaluation.json"));
}

}  // namespace

TEST_CASE("an evaluation finds what the training said of its last step, on any ranks") {
  const Trained example;
  const std::string weights = example.last_weights();
  const auto last = example.metric_lines().back();
  const CommandResult one = run_command(example.command() + " --evaluate");
  REQUIRE_MESSAGE(one.code == 0, one.output);
  const nlohmann::json record = evaluation(example);
  CHECK(record.at("top1") == last.at("val_top1"));
  CHECK(record.at("loss").get<double>() ==
        doctest::Approx(last.at("val_loss").get<double>()).epsilon(1e-6));
  CHECK(record.at("top5") == 1);
  CHECK(record.at("images") == 10);
  double counted = 0, right = 0;
  for (int row = 0; row < 2; ++row)
    for (int column = 0; column < 2; ++column) {
      const auto count = record.at("confusion").at(row).at(column).get<double>();
      counted += count;
      if (row == column) right += count;
    }
  CHECK(counted == 10);
  CHECK(right / counted == doctest::Approx(record.at("top1").get<double>()));
  CHECK(example.read("confusion.svg").find(">light</text>") != std::string::npos);

  const CommandResult two = run_command(
      example.command("booster.plugin=fsdp", "run --nproc_per_node 2") + " --evaluate");
  REQUIRE_MESSAGE(two.code == 0, two.output);
  CHECK(evaluation(example).at("confusion") == record.at("confusion"));
  CHECK(example.last_weights() == weights);
}

TEST_CASE("an evaluation of a folder counts all of its images, by the names of the training") {
  const Trained example;
  const auto folder = example.root() / "more";
  Example::write_classes(folder, 7);
  std::filesystem::remove_all(folder / "dark");
  const CommandResult result =
      run_command(example.command() + fmt::format(" --evaluate '{}'", folder.string()));
  REQUIRE_MESSAGE(result.code == 0, result.output);
  CHECK(evaluation(example).at("images") == 7);
  CHECK(evaluation(example).at("classes").at(0).at("images") == 0);
  CHECK(evaluation(example).at("classes").at(1).at("images") == 7);
}

TEST_CASE("a prediction names classes, and a file that is no image") {
  const Trained example;
  const auto file = [&](const char* name) { return (example.root() / name).string(); };
  std::ofstream(file("dark.jpg"), std::ios::binary) << Example::make_jpeg(50, 40, 40);
  std::ofstream(file("light.jpg"), std::ios::binary) << Example::make_jpeg(30, 40, 200);
  std::ofstream(file("other.jpg")) << "no image";
  const std::string predict = example.command() + " --predict '" + file("dark.jpg") + "' '" +
                              file("light.jpg") + "'";
  const CommandResult result = run_command(predict);
  REQUIRE_MESSAGE(result.code == 0, result.output);
  CHECK_MESSAGE(result.says("dark.jpg: dark "), result.output);
  CHECK(result.says("light.jpg: light "));

  const CommandResult three = run_command(predict + " '" + file("other.jpg") + "' --json");
  CHECK(three.code == 1);
  CHECK_MESSAGE(three.says("other.jpg"), three.output);
  const auto lines = json_lines(three.output);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].at("file") == file("dark.jpg"));
  double sum = 0;
  for (const auto& one : lines[0].at("predictions")) sum += one.at("probability").get<double>();
  CHECK(sum == doctest::Approx(1));
  CHECK(lines[0].at("predictions").at(0).at("class") == "dark");
  CHECK(lines[1].at("predictions").at(0).at("class") == "light");
}

TEST_CASE("without a checkpoint, or with both, nothing is evaluated") {
  const Example example;
  const CommandResult none = run_command(example.command() + " --evaluate");
  CHECK(none.code == 1);
  CHECK_MESSAGE(none.says("no checkpoint in"), none.output);
  const CommandResult both = run_command(example.command() + " --evaluate --predict a.jpg");
  CHECK(both.code == 2);
  CHECK_MESSAGE(both.says("want one of the two"), both.output);
  const CommandResult empty = run_command(example.command() + " --predict --json");
  CHECK(empty.code == 2);
  CHECK_MESSAGE(empty.says("--predict needs a value"), empty.output);
}
