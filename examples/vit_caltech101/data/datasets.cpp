#include "examples/vit_caltech101/data/datasets.h"

#include "examples/vit_caltech101/data/augmentation.h"
#include "examples/vit_caltech101/data/class_folders.h"
#include "examples/vit_caltech101/data/make_small_set.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <optional>

namespace example {

namespace fs = std::filesystem;
using namespace booster;

namespace {

std::string root_of(const Config& config) {
  if (const auto root = config.options("data").given<std::string>("root")) return *root;
  const char* root = std::getenv("DATA");
  return root ? root : "";
}

// Creates the set unless an earlier run did; the other ranks wait.
std::string small_set(const Config& config, const World& world) {
  const fs::path folder = fs::path(config.get<std::string>("train.output_dir")) / "small_set";
  if (world.rank == 0) make_small_set(folder.string());
  world.group().barrier();
  return folder.string();
}

int image_side(const Config& config) {
  const char* option = config.has("model.img_size") ? "model.img_size" : "data.img_size";
  return static_cast<int>(config.get<int64_t>(option));
}

struct Sets {
  ImageDataset train, validation;
};

// Returns the folder next to `train` with the validation images, or "" if there is none.
std::string validation_folder(const std::vector<std::string>& folders) {
  for (const char* name : {"val", "valid", "validation", "test"})
    if (holds(folders, name)) return name;
  return {};
}

// Calls `report` with a line for each folder that is not read completely.
Sets open_sets(const std::string& root, const Config& config,
               const std::function<void(const std::string&)>& report) {
  const ImageDatasetOptions options = {
      .transform = training_transform(config, image_side(config)),
      .cache_bytes = static_cast<size_t>(config.get<int64_t>("data.cache_mb")) << 20,
      .device = device_of(config),
      .device_cache_bytes = static_cast<size_t>(config.get<int64_t>("data.device_cache_mb")) << 20,
      .report = report};
  const auto split = [&](const ImageDataset& all) {
    const auto [train, validation] = all.split(config.get<double>("data.validation_fraction"));
    if (validation.size() == 0)
      fail_data(
          "data.root: no class in '{}' has a second image, to validate on; want two of one "
          "class, or a folder val beside train",
          root);
    return Sets{train, validation};
  };
  if (is_caltech101(root))
    return split(Caltech101(root, {.transform = options.transform,
                                   .cache_bytes = options.cache_bytes,
                                   .device = options.device,
                                   .device_cache_bytes = options.device_cache_bytes,
                                   .report = report,
                                   .background = config.get<bool>("data.include_background")}));
  if (const std::string inner = within_archive(root, {"train"}); inner != root)
    return open_sets(inner, config, report);
  const auto folders = image_folders(root);
  const bool has_train = holds(folders, "train");
  const std::string validation = validation_folder(folders), train = root + "/train";
  if (has_train && !validation.empty()) {
    const ImageFolder images(train, options);
    ImageDatasetOptions same_classes = options;
    same_classes.classes = images.classes();
    return {images, ImageFolder(root + "/" + validation, same_classes)};
  }
  if (has_train && folders.size() == 1) return split(ImageFolder(train, options));
  if (folders.size() < 2)
    fail_data(
        "data.root: {} '{}'; want a folder for each class, or train and val with such "
        "folders, or Caltech101's 101_ObjectCategories",
        fs::is_directory(root) ? "no images are laid out in" : "no such folder; got", root);
  return split(ImageFolder(root, options));
}

}  // namespace

bool is_caltech101(const std::string& root) {
  return holds(image_folders(root), "101_ObjectCategories") ||
         holds(image_folders(root + "/caltech101"), "101_ObjectCategories");
}

std::optional<int64_t> outputs(const Config& config) {
  if (config.has("model.num_classes")) return config.options("model").given<int64_t>("num_classes");
  if (config.has("model.sizes")) return config.get<std::vector<int64_t>>("model.sizes").back();
  return {};
}

Compose evaluation_transform(const Config& config) {
  const int side = image_side(config);
  return Compose(Resize(resize_side(side)), CenterCrop(side), ToTensor(), Gray2RGB(),
                 normalization());
}

Config for_classes(const Config& config, int64_t classes) {
  return outputs(config) || !config.has("model.num_classes")
             ? config
             : config.with("model.num_classes", classes);
}

DataLoaderOptions loader_options(const Config& config) {
  const OptionValues values = config.options("data");
  return {.batch_size = values.get<int64_t>("batch_size"),
          .workers = values.get<int>("workers"),
          .prefetch = values.get<int>("prefetch"),
          .seed = config.get<uint64_t>("train.seed"),
          .on_bad_image = bad_image_policy(values.get<std::string>("on_bad_image")),
          .device = device_of(config)};
}

Datasets open_datasets(const Config& config, const World& world) {
  Datasets datasets;
  datasets.root = root_of(config);
  datasets.made = datasets.root.empty();
  if (datasets.made) datasets.root = small_set(config, world);
  const std::string& root = datasets.root;
  const auto on_first_rank = [&](const std::string& line) {
    if (world.rank == 0) warn(line);
  };
  const auto [train, validation] = open_sets(root, config, on_first_rank);
  datasets.classes = class_names(train.classes());
  const auto classes = static_cast<int64_t>(datasets.classes.size());
  const int64_t most = outputs(config).value_or(classes);
  if (classes > most)
    fail(
        "model.num_classes: the data have more classes; got {}, want {} for {}, or none "
        "given",
        most, classes, root);
  datasets.train = std::make_shared<ImageDataset>(train);
  datasets.validation =
      std::make_shared<ImageDataset>(validation.with_transform(evaluation_transform(config)));
  datasets.said =
      fmt::format("data: {} images of {} classes in {}; {} to train, {} to validate",
                  train.size() + validation.size(), classes, root, train.size(), validation.size());
  return datasets;
}

}  // namespace example
