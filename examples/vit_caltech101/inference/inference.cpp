#include "examples/vit_caltech101/inference/inference.h"

#include "examples/vit_caltech101/data/bad_images.h"
#include "examples/vit_caltech101/data/class_folders.h"
#include "examples/vit_caltech101/data/datasets.h"
#include "examples/vit_caltech101/inference/source.h"
#include "examples/vit_caltech101/report/confusion.h"
#include "examples/training/console.h"
#include "examples/training/metrics.h"
#include "examples/vit_caltech101/validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

namespace example {

namespace fs = std::filesystem;
using namespace booster;

namespace {

constexpr const char* kept_images = "validation";

// A model with loaded weights.
class Trained {
 public:
  Trained(const Config& config, const World& world, const Source& source)
      : config_(config), world_(world), source_(source), classes_(source.classes()) {}

  int evaluate(const std::string& folder);
  int predict(const std::vector<std::string>& files, int64_t top, bool as_json);

 private:
  void load(int64_t classes);
  // Throws if these are not the classes that the model was trained on, if those are known.
  void take_classes(const std::vector<std::string>& classes, const std::string& root);
  std::shared_ptr<const ImageDataset> images_in(const std::string& folder);
  Tensor probabilities(const std::string& file, const Compose& transform) const;
  std::string name_of(int64_t label) const;

  Config config_;
  World world_;
  Source source_;
  std::vector<std::string> classes_;
  std::optional<Booster> booster_;
  std::optional<BoostedPair> boosted_;
};

void Trained::load(int64_t classes) {
  if (classes > 0) config_ = for_classes(config_, classes);
  booster_.emplace(Booster::from_config(config_));
  const Model model = make_model(config_.with("model.weights", nullptr));
  boosted_.emplace(booster_->boost(model, make_optimizer(config_, model)));
  source_.load(boosted_->model);
  boosted_->model.eval();
}

void Trained::take_classes(const std::vector<std::string>& classes, const std::string& root) {
  if (!classes_.empty() && classes_ != classes)
    fail_data("the classes in {} are not those of {}", root, source_.path().string());
  classes_ = classes;
}

std::shared_ptr<const ImageDataset> Trained::images_in(const std::string& folder) {
  if (folder == kept_images) {
    const Datasets datasets = open_datasets(config_, world_);
    take_classes(datasets.classes, datasets.root);
    return datasets.validation;
  }
  if (is_caltech101(folder)) {
    auto images = std::make_shared<Caltech101>(
        folder, Caltech101Options{.transform = evaluation_transform(config_),
                                  .background = config_.get<bool>("data.include_background")});
    take_classes(class_names(images->classes()), folder);
    return images;
  }
  const std::string root = within_archive(folder, classes_);
  auto images = std::make_shared<ImageFolder>(
      root, ImageDatasetOptions{.transform = evaluation_transform(config_),
                                .classes = class_folders(classes_, root)});
  classes_ = class_names(images->classes());
  return images;
}

int Trained::evaluate(const std::string& folder) {
  const auto images = images_in(folder);
  const auto classes = static_cast<int64_t>(classes_.size());
  load(classes);
  Validation validation(images, loader_options(config_), world_, booster_->plugin(), classes);
  TimeAccount time;
  const auto result = validation.run(boosted_->model, time);
  if (!result || result->images == 0) fail_data("evaluate: no image in {} could be read", folder);
  const auto bad = static_cast<int64_t>(on_all_ranks(validation.bad_images(), world_).size());
  if (world_.rank > 0) return 0;
  const fs::path output = config_.get<std::string>("train.output_dir");
  make_folders(output);
  write_file(output / "evaluation.json", evaluation_record(*result, classes_, source_));
  write_file(output / "confusion.svg", draw_confusion(result->confusion, classes_));
  print(fmt::format(
      "{}: {} images, top-1 {:.2f} %, top-5 {:.2f} %, loss {:.4f}{}\n"
      "evaluation.json and confusion.svg are in {}\n",
      terminal_text(source_.name()), result->images, 100 * result->top1, 100 * result->top5,
      result->loss, bad > 0 ? fmt::format("; {} bad images left out", bad) : "",
      terminal_text(output.string())));
  return 0;
}

Tensor Trained::probabilities(const std::string& file, const Compose& transform) const {
  LazyImage image(std::make_shared<Image>(load_image(file)), file);
  RandomStream unused(0, 0, 0);
  transform.apply(image, unused);
  const Tensor batch = zeros({1, image.channels(), image.height(), image.width()});
  image.write(batch.data<float>());
  const Tensor logits = boosted_->model(batch.to(device_of(config_)));
  return softmax(untracked::cast(logits, DType::f32), -1);
}

std::string Trained::name_of(int64_t label) const {
  const auto i = static_cast<size_t>(label);
  return i < classes_.size() ? classes_[i] : fmt::format("class {}", label);
}

int Trained::predict(const std::vector<std::string>& files, int64_t top, bool as_json) {
  const NoGradGuard no_grad;
  if (world_.rank == 0 && !as_json) warn("weights: " + source_.name());
  load(static_cast<int64_t>(classes_.size()));
  const Compose transform = evaluation_transform(config_);
  int code = 0;
  for (const std::string& file : files) {
    std::vector<float> shares;
    try {
      shares = probabilities(file, transform).to_vector<float>();
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data) throw;
      if (world_.rank == 0) warn(error.what());
      code = 1;
      continue;
    }
    std::vector<int64_t> order(shares.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(), [&](int64_t label) { return shares[label]; });
    order.resize(std::min(order.size(), static_cast<size_t>(top)));
    if (world_.rank > 0) continue;
    nlohmann::json line = {{"file", written_out(file)},
                           {"checkpoint", written_out(source_.path().filename().string())},
                           {"weights", source_.kind()},
                           {"predictions", nlohmann::json::array()}};
    std::string text = terminal_text(file) + ":";
    for (const int64_t label : order) {
      line["predictions"].push_back(
          {{"class", name_of(label)}, {"label", label}, {"probability", number(shares[label])}});
      text += fmt::format("{} {} {:.1f} %", label == order[0] ? "" : ",", name_of(label),
                          100 * shares[label]);
    }
    print((as_json ? line.dump() : text) + "\n");
  }
  return code;
}

}  // namespace

std::optional<int> infer(const Config& config, const World& world) {
  const OptionValues use = config.options("inference");
  const auto folder = use.given<std::string>("evaluate");
  auto files = use.get<std::vector<std::string>>("predict");
  if (!folder && files.empty()) return {};
  check(!folder || files.empty(), "command line: --evaluate and --predict; want one of the two");
  const Source source(config, world, folder ? *folder : files[0]);
  Trained trained(config, world, source);
  if (folder) return trained.evaluate(source.is_word() ? kept_images : *folder);
  if (source.is_word()) files.erase(files.begin());
  check(!files.empty(),
        "command line: --predict: a checkpoint alone; want files of images behind it");
  return trained.predict(files, use.get<int64_t>("top"), use.get<bool>("json"));
}

}  // namespace example
