// The example with a trained model: --evaluate and --predict.
#include "tests/examples/example.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;

namespace {

// A training that separates dark from light images after a few steps.
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

// Each rank sees other batches; rank 0's statistics are saved.
TEST_CASE("two ranks validate the batch norms that they save, in every plugin") {
  for (const char* plugin :
       {"torch_ddp", "low_level_zero", "fsdp", R"({"name":"hybrid_parallel","zero_stage":1})"}) {
    CAPTURE(plugin);
    const Example example(12);
    const std::string model = R"(model={"name":"resnet20","num_classes":2} )";
    const CommandResult ranks =
        example.run(model + "train.epochs=1 train.accumulate=2 booster.plugin=" + plugin,
                    "run --nproc_per_node 2");
    REQUIRE_MESSAGE(ranks.code == 0, ranks.output);
    const CommandResult one = run_command(example.command(model) + " --evaluate");
    REQUIRE_MESSAGE(one.code == 0, one.output);
    CHECK(
        evaluation(example).at("loss").get<double>() ==
        doctest::Approx(example.metric_lines().back().at("val_loss").get<double>()).epsilon(1e-5));
  }
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

TEST_CASE("an evaluation takes the folder that the training took") {
  const Trained example;
  const CommandResult result =
      run_command(example.command() + fmt::format(" --evaluate '{}'", example.root().string()));
  REQUIRE_MESSAGE(result.code == 0, result.output);
  CHECK(evaluation(example).at("images") == 40);
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

TEST_CASE("a checkpoint is named by its folder, its training or its weights' file") {
  const Trained example;
  const auto training = example.output().parent_path() / "trained";
  std::filesystem::rename(example.output(), training);
  const std::string wanted = "step-000000014";
  const auto infer = [&](const std::string& words) {
    const CommandResult result = run_command(example.command() + words);
    CHECK_MESSAGE(result.code == 0, result.output);
    return result;
  };
  const auto in_quotes = [](const std::filesystem::path& path) {
    return " '" + path.string() + "'";
  };
  const auto folder = training / "checkpoint" / wanted;
  const std::string jpeg = in_quotes(example.image("light/image_0001.jpg"));
  for (const auto& path : {training, training / "checkpoint", folder}) {
    CAPTURE(path.string());
    CHECK(infer(" --evaluate" + in_quotes(path)).says(wanted + ": 10 images"));
    CHECK(evaluation(example).at("checkpoint") == wanted);
    CHECK(evaluation(example).at("weights") == "trained");
    const auto lines = json_lines(infer(" --predict" + in_quotes(path) + jpeg + " --json").output);
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].at("checkpoint") == wanted);
    CHECK(lines[0].at("predictions").at(0).at("class") == "light");
  }
  // Images in another folder, with a checkpoint that does not belong to this training.
  const std::string named = " --set inference.checkpoint='" + training.string() + "'";
  Example::write_classes(example.root() / "more", 3);
  CHECK(infer(named + " --evaluate" + in_quotes(example.root() / "more")).says(": 6 images"));
  CHECK(infer(named + " --predict" + jpeg).says("weights: " + wanted));
  CHECK(
      infer(" --evaluate" + in_quotes(folder / "model.safetensors")).says("model.safetensors: 10"));
  CHECK(evaluation(example).at("classes").at(1).at("name") == "light");  // named by the data

  const auto refused = [&](const std::string& words, const std::string& says, int code) {
    const CommandResult result = run_command(example.command() + words);
    CHECK(result.code == code);
    CHECK_MESSAGE(result.says(says), result.output);
  };
  refused(named + " --evaluate" + in_quotes(folder), "two checkpoints; got ", 2);
  refused(" --predict" + in_quotes(folder), "a checkpoint alone; want files of images", 2);
  refused(" --set inference.checkpoint=bset --evaluate", "no weights; got bset, want newest, best",
          1);
}

TEST_CASE("rank 0 chooses the checkpoint, and says alone what it passed over") {
  const Trained example;
  REQUIRE(example.run("train.epochs=3").code == 0);
  const auto newest = example.output() / "checkpoint/step-000000021/model.safetensors";
  REQUIRE(std::filesystem::exists(newest));
  std::filesystem::resize_file(newest, std::filesystem::file_size(newest) - 1);
  const CommandResult result = run_command(
      example.command("booster.plugin=torch_ddp", "run --nproc_per_node 2") + " --evaluate");
  CHECK_MESSAGE(result.code == 0, result.output);
  CHECK(result.says("step-000000014: 10 images"));
  CHECK(result.output.find("broken checkpoint passed over") ==
        result.output.rfind("broken checkpoint passed over"));
  const CommandResult none =
      run_command(example.command("booster.plugin=torch_ddp inference.checkpoint=best",
                                  "run --nproc_per_node 2") +
                  " --evaluate");
  CHECK(none.code == 1);
  CHECK_MESSAGE(none.says("no checkpoint in "), none.output);  // from whichever rank ended first
}

TEST_CASE("the averages of the weights are evaluated as the training evaluated them") {
  for (const std::string plugin : {"single", "torch_ddp", "low_level_zero", "fsdp"}) {
    CAPTURE(plugin);
    const bool alone = plugin == "single";
    const std::string sets =
        "train.ema_decay=0.8 train.eval_metric=loss train.keep_best=true "
        "train.epochs=2 model.depth=2 booster.plugin=" +
        plugin + " ";
    const std::string ranks = alone ? "" : "run --nproc_per_node 2";
    const Example example(20);
    REQUIRE(example.run(sets + "optimizer.lr=0.01", ranks).code == 0);
    const auto last = example.metric_lines().back();
    REQUIRE(last.at("val_loss") != last.at("val_ema_loss"));
    const auto loss_of = [&](const std::string& more, const std::string& by) {
      const CommandResult result = run_command(example.command(sets + more, by) + " --evaluate");
      REQUIRE_MESSAGE(result.code == 0, result.output);
      const bool says = result.says(", averages: ");
      CHECK(says == (more.find("averages") != more.npos));
      return evaluation(example).at("loss").get<double>();
    };
    const auto near = [](const nlohmann::json& value) {
      return doctest::Approx(value.get<double>()).epsilon(1e-5);
    };
    CHECK(loss_of("inference.weights=averages", ranks) == near(last.at("val_ema_loss")));
    CHECK(evaluation(example).at("weights") == "averages");
    CHECK(loss_of("inference.weights=trained", ranks) == near(last.at("val_loss")));
    double best = 1e9;
    for (const auto& line : example.metric_lines())
      if (line.contains("val_ema_loss")) best = std::min(best, line["val_ema_loss"].get<double>());
    CHECK(loss_of("inference.weights=averages inference.checkpoint=best", ranks) ==
          near(nlohmann::json(best)));
  }
}

TEST_CASE("averages that are not there are an error") {
  const Trained example;
  const std::string averages = "inference.weights=averages";
  const CommandResult none = run_command(example.command(averages) + " --evaluate");
  CHECK(none.code == 1);
  CHECK_MESSAGE(none.says("step-000000014: no averages of weights"), none.output);
  const CommandResult file =
      run_command(example.command(averages) +
                  fmt::format(" --evaluate '{}/checkpoint/latest/model.safetensors'",
                              example.output().string()));
  CHECK(file.code == 2);
  CHECK_MESSAGE(file.says("got a model's files, want a checkpoint"), file.output);
}

TEST_CASE("archives are evaluated as the folders that they were made of") {
  const Trained example;
  const auto folder = example.root() / "more";
  Example::write_classes(folder, 7);
  const auto evaluated = [&](const std::string& name) {
    const CommandResult result = run_command(
        example.command() + fmt::format(" --evaluate '{}/{}'", example.root().string(), name));
    REQUIRE_MESSAGE(result.code == 0, result.output);
    return evaluation(example).at("images").get<int>();
  };
  const auto archive = [&](const std::string& name, const std::string& from,
                           const std::string& what) {
    const std::string make =
        fmt::format("cd '{}' && tar -cf '{}/{}' {}", from, example.root().string(), name, what);
    REQUIRE(run_command(make).code == 0);
  };
  archive("whole.tar", example.root().string(), "more");
  archive("inside.tar", folder.string(), "dark light");
  archive("light.tar", folder.string(), "light");
  CHECK(evaluated("whole.tar") == 14);
  CHECK(evaluated("inside.tar") == 14);
  CHECK(evaluated("light.tar") == 7);  // one class, without a folder of classes
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
