#include "examples/vit_caltech101/inference.h"

#include "examples/vit_caltech101/data/bad_images.h"
#include "examples/vit_caltech101/data/datasets.h"
#include "examples/vit_caltech101/report/confusion.h"
#include "examples/vit_caltech101/report/console.h"
#include "examples/vit_caltech101/report/metrics.h"
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

fs::path checkpoint_of(const Config& config) {
  const bool best = config.get<std::string>("inference.checkpoint") == "best";
  const fs::path root =
      fs::path(config.get<std::string>("train.output_dir")) / (best ? "best" : "checkpoint");
  const auto found = latest_checkpoint(root, [](const std::string& text) { warn(text); });
  if (!found)
    fail_data("train.output_dir: no checkpoint in {}; want the folder of a training{}",
              root.string(), best ? " with train.keep_best" : "");
  return *found;
}

// By label; none if another program made the checkpoint.
std::vector<std::string> classes_of(const fs::path& checkpoint) {
  const nlohmann::json state = CheckpointReader(checkpoint).state();
  const auto* names = state.contains("extra") && state["extra"].contains("classes")
                          ? &state["extra"]["classes"]
                          : nullptr;
  std::vector<std::string> classes;
  if (!names || !names->is_array()) return classes;
  for (const auto& name : *names) {
    if (!name.is_string()) fail_data("{}: classes; got {}", checkpoint.string(), name.type_name());
    classes.push_back(name.get<std::string>());
  }
  return classes;
}

// A model with the weights of the newest checkpoint, or of the best.
class Trained {
 public:
  Trained(const Config& config, const World& world)
      : config_(config), world_(world), checkpoint_(checkpoint_of(config)),
        classes_(classes_of(checkpoint_)) {}

  int evaluate(const std::string& folder);
  int predict(const std::vector<std::string>& files, int64_t top, bool as_json);

 private:
  void load(int64_t classes);
  std::shared_ptr<const ImageDataset> images_in(const std::string& folder);
  Tensor probabilities(const std::string& file, const Compose& transform) const;
  std::string name_of(int64_t label) const;

  Config config_;
  World world_;
  fs::path checkpoint_;
  std::vector<std::string> classes_;
  std::optional<Booster> booster_;
  std::optional<BoostedPair> boosted_;
};

void Trained::load(int64_t classes) {
  if (classes > 0) config_ = for_classes(config_, classes);
  booster_.emplace(Booster::from_config(config_));
  const Model model = make_model(config_.with("model.weights", nullptr));
  boosted_.emplace(booster_->boost(model, make_optimizer(config_, model)));
  booster_->load_model(boosted_->model, checkpoint_);
  boosted_->model.eval();
}

std::shared_ptr<const ImageDataset> Trained::images_in(const std::string& folder) {
  if (folder == kept_images) {
    const Datasets datasets = open_datasets(config_, world_);
    if (!classes_.empty() && classes_ != datasets.classes)
      fail_data("data.root: the classes in {} are not those of {}", datasets.root,
                checkpoint_.string());
    classes_ = datasets.classes;
    return datasets.validation;
  }
  auto images = std::make_shared<ImageFolder>(
      folder, ImageDatasetOptions{.transform = evaluation_transform(config_), .classes = classes_});
  classes_ = images->classes();
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
  write_file(output / "evaluation.json",
             evaluation_record(*result, classes_, checkpoint_.filename().string()));
  write_file(output / "confusion.svg", draw_confusion(result->confusion, classes_));
  print(fmt::format("{}: {} images, top-1 {:.2f} %, top-5 {:.2f} %, loss {:.4f}{}\n"
                    "evaluation.json and confusion.svg are in {}\n",
                    checkpoint_.filename().string(), result->images, 100 * result->top1,
                    100 * result->top5, result->loss,
                    bad > 0 ? fmt::format("; {} bad images left out", bad) : "", output.string()));
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
    nlohmann::json line = {{"file", file}, {"predictions", nlohmann::json::array()}};
    std::string text = terminal_text(file) + ":";
    for (const int64_t label : order) {
      line["predictions"].push_back(
          {{"class", name_of(label)}, {"label", label}, {"probability", number(shares[label])}});
      text += fmt::format("{} {} {:.1f} %", label == order[0] ? "" : ",",
                          terminal_text(name_of(label)), 100 * shares[label]);
    }
    const auto replace = nlohmann::json::error_handler_t::replace;
    print((as_json ? line.dump(-1, ' ', false, replace) : text) + "\n");
  }
  return code;
}

}  // namespace

std::optional<int> infer(const Config& config, const World& world) {
  const OptionValues use = config.options("inference");
  const auto folder = use.given<std::string>("evaluate");
  const auto files = use.get<std::vector<std::string>>("predict");
  if (!folder && files.empty()) return {};
  check(!folder || files.empty(), "command line: --evaluate and --predict; want one of the two");
  Trained trained(config, world);
  if (folder) return trained.evaluate(*folder);
  return trained.predict(files, use.get<int64_t>("top"), use.get<bool>("json"));
}

}  // namespace example
