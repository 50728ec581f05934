#include "examples/vit_caltech101/data/datasets.h"

#include "examples/vit_caltech101/data/make_small_set.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

namespace example {

using namespace booster;

namespace {

const std::vector<double> mean = {0.5, 0.5, 0.5}, deviation = {0.5, 0.5, 0.5};

// Resize(256) and a crop of 224 in the tutorial; the same ratio for other sizes.
int resize_side(int crop) { return static_cast<int>(std::lround(crop * 256.0 / 224.0)); }

Compose training_transform(int side) {
  return Compose(Resize(resize_side(side)), RandomResizedCrop(side), RandomHorizontalFlip(),
                 ToTensor(), Gray2RGB(), Normalize(mean, deviation));
}

Compose validation_transform(int side) {
  return Compose(Resize(resize_side(side)), CenterCrop(side), ToTensor(), Gray2RGB(),
                 Normalize(mean, deviation));
}

std::string root_of(const Config& config) {
  if (const auto root = config.options("data").given<std::string>("root")) return *root;
  const char* from_environment = std::getenv("DATA");
  return from_environment ? from_environment : "";
}

// Creates the set unless an earlier run did; the other ranks wait.
std::string small_set(const Config& config, const World& world) {
  const std::filesystem::path folder =
      std::filesystem::path(config.get<std::string>("train.output_dir")) / "small_set";
  if (world.rank == 0) make_small_set(folder.string());
  world.group().barrier();
  return folder.string();
}

int image_side(const Config& config) {
  const char* option = config.has("model.img_size") ? "model.img_size" : "data.img_size";
  return static_cast<int>(config.get<int64_t>(option));
}

int64_t outputs(const Config& config) {
  if (config.has("model.num_classes")) return config.get<int64_t>("model.num_classes");
  return config.get<std::vector<int64_t>>("model.sizes").back();
}

}  // namespace

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
  const int side = image_side(config);
  const Caltech101 all(
      root, {.transform = training_transform(side),
             .cache_bytes = static_cast<size_t>(config.get<int64_t>("data.cache_mb")) << 20,
             .background = config.get<bool>("data.include_background")});
  const auto [train, validation] = all.split(config.get<double>("data.validation_fraction"));
  const auto classes = static_cast<int64_t>(all.classes().size());
  check(classes <= outputs(config),
        "data: more classes than the model has outputs; got {} in {} and {} outputs", classes, root,
        outputs(config));
  datasets.train = std::make_shared<ImageDataset>(train);
  datasets.validation =
      std::make_shared<ImageDataset>(validation.with_transform(validation_transform(side)));
  datasets.said =
      fmt::format("data: {} images of {} classes in {}; {} to train, {} to validate", all.size(),
                  classes, root, train.size(), validation.size());
  return datasets;
}

}  // namespace example
