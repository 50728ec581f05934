// What the example reports about its images: bad ones, generated ones, and each counted once.
#include "tests/examples/example.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;

TEST_CASE("bad images of all ranks are counted, the list says what it leaves out") {
  const Example example(40);
  for (int i = 1; i <= 15; ++i)
    std::ofstream(example.image(fmt::format("{}/image_{:04}.jpg", i % 2 ? "dark" : "light", i)))
        << "no image";
  const CommandResult result =
      example.run("train.epochs=1 data.batch_size=10 data.on_bad_image=skip "
                  "booster.plugin=torch_ddp",
                  "run --nproc_per_node 2");
  CHECK_MESSAGE(result.code == 0, result.output);
  CHECK_MESSAGE(result.says("15 bad images skipped:"), result.output);
  CHECK(result.says("and 5 more: run.json lists all"));
  const auto bad = nlohmann::json::parse(example.record()).at("bad_images");
  CHECK(bad.size() == 15);
}

TEST_CASE("no name of a file steers the terminal") {
  const Example example;
  std::ofstream(example.image("dark/a\x1b[31m\nerror: b\xff.jpg")) << "no image";
  for (const std::string policy : {"skip", "fail"}) {
    std::filesystem::remove_all(example.output());
    const CommandResult result = example.run("train.epochs=2 data.on_bad_image=" + policy);
    CHECK(result.code == (policy == "skip" ? 0 : 1));
    CHECK_MESSAGE(result.says("a\\x1b[31m\\nerror: b\\xff.jpg"), result.output);
    CHECK_FALSE(result.says("\x1b"));
  }
}

TEST_CASE("an empty folder of data is an error, none at all is told") {
  const Example example;
  const CommandResult empty = run_command(example.command("", "", false) + " --set data.root=");
  CHECK(empty.code == 2);
  CHECK_MESSAGE(empty.says("data.root: empty path"), empty.output);
  CHECK_FALSE(std::filesystem::exists(example.output()));

  const std::string command =
      "env -u DATA " +
      example.command("model.num_classes=8 train.max_steps=1 data.validation_fraction=0.02", "",
                      false);
  const CommandResult none = run_command("{ " + command + " 2>&1 >/dev/null; }");
  CHECK_MESSAGE(none.code == 0, none.output);
  CHECK_MESSAGE(none.says("warning: no data"), none.output);
  CHECK(nlohmann::json::parse(example.record()).at("data").at("made_up") == true);
  CHECK(run_command("{ " + command + " 2>/dev/null; }").says("made up)"));
}

TEST_CASE("the validation counts each image once, also where ranks have none") {
  const Example example(11);
  const std::string ranks = "train.epochs=1 data.batch_size=1 booster.plugin=torch_ddp ";
  for (const auto& [fraction, images] : {std::pair{"0.5", 12}, std::pair{"0.05", 2}}) {
    std::filesystem::remove_all(example.output());
    const CommandResult result = example.run(
        ranks + "data.validation_fraction=" + fraction, "run --nproc_per_node 3");
    CHECK_MESSAGE(result.code == 0, result.output);
    CHECK(result.says(fmt::format(", {} to validate", images)));
    REQUIRE(!example.metric_lines().empty());
    const double right = example.metric_lines().back().at("val_top1").get<double>() * images;
    CHECK(std::abs(right - std::round(right)) < 1e-9);
  }
}

TEST_CASE("any folder of class folders is data, and the model has as many outputs") {
  const Example example;
  for (const char* name : {"dark", "light"})
    std::filesystem::rename(example.image(name), example.root() / name);
  std::filesystem::remove(example.image(""));
  const CommandResult result = example.run("model.num_classes=null train.max_steps=1");
  CHECK_MESSAGE(result.code == 0, result.output);
  CHECK(result.says("16 images of 2 classes"));
  const auto record = nlohmann::json::parse(example.record());
  CHECK(record.at("config").at("model").at("num_classes") == 2);
  CHECK(record.at("data").at("classes") == nlohmann::json({"dark", "light"}));
  const CommandResult few = run_command(example.command("model.num_classes=1"));
  CHECK(few.code == 2);
  CHECK_MESSAGE(few.says("model.num_classes: the data have more classes; got 1, want 2"),
                few.output);
}

TEST_CASE("images to validate on may lie beside those to train on") {
  for (const std::string name : {"val", "valid", "validation", "test"}) {
    const Example example;
    std::filesystem::rename(example.image(""), example.root() / "train");
    Example::write_classes(example.root() / name, 3);
    const CommandResult result = example.run("train.max_steps=1");
    CHECK_MESSAGE(result.code == 0, result.output);
    CHECK_MESSAGE(result.says("22 images of 2 classes"), result.output);
    CHECK(result.says("16 to train, 6 to validate"));
    std::filesystem::rename(example.root() / name / "dark", example.root() / name / "drak");
    std::filesystem::remove_all(example.output());
    const CommandResult other = example.run("train.max_steps=1");
    CHECK(other.code == 1);
    CHECK_MESSAGE(other.says("folder 'drak' in "), other.output);
    CHECK(other.says("did you mean 'dark'?"));
  }
}

TEST_CASE("an archive is data, of class folders or of the folder that has them") {
  const Example example;
  const std::string root = example.root().string();
  std::filesystem::rename(example.image(""), example.root() / "set");
  const struct {
    const char *make, *name;
  } archives[] = {{"tar -cf whole.tar set", "whole.tar"},
                  {"tar -cf inside.tar -C set dark light", "inside.tar"},
                  {"mkdir both && mv set both/train && cp -r both/train both/val && "
                   "tar -cf both.tar both",
                   "both.tar"},
                  {"cd both && tar -cf ../train.tar train", "train.tar"}};
  for (const auto& [make, name] : archives) {
    REQUIRE(run_command("cd '" + root + "' && " + make).code == 0);
    std::filesystem::remove_all(example.output());
    const CommandResult result = run_command(example.command("train.max_steps=1", "", false) +
                                             fmt::format(" --set data.root='{}/{}'", root, name));
    CHECK_MESSAGE(result.code == 0, result.output);
    const bool both = std::string(name) == "both.tar";
    CHECK_MESSAGE(result.says(both ? "16 to train, 16 to validate" : "12 to train, 4 to validate"),
                  result.output);
    CHECK(nlohmann::json::parse(example.record()).at("data").at("classes") ==
          nlohmann::json({"dark", "light"}));
  }
}

TEST_CASE("with one image of each class none is left to validate on, which is said") {
  const Example example;
  for (const auto& folder : std::filesystem::directory_iterator(example.image(""))) {
    std::vector<std::filesystem::path> images;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      images.push_back(entry.path());
    for (size_t i = 1; i < images.size(); ++i) std::filesystem::remove(images[i]);
  }
  const CommandResult result = example.run("train.max_steps=1");
  CHECK(result.code == 1);
  CHECK_MESSAGE(result.says("has a second image, to validate on"), result.output);
}

TEST_CASE("a folder that is laid out otherwise says what is wanted") {
  const Example example;
  std::filesystem::rename(example.image(""), example.root() / "train");
  const CommandResult all = example.run("train.max_steps=1");  // some are for validation
  CHECK_MESSAGE(all.says("12 to train, 4 to validate"), all.output);
  std::filesystem::remove_all(example.output());
  std::filesystem::rename(example.root() / "train", example.root() / "pictures");
  const CommandResult result = example.run("train.max_steps=1");
  CHECK(result.code == 1);
  CHECK_MESSAGE(result.says("want a folder for each class, or train and val with such folders"),
                result.output);
}
