// The images of a run: their location, split and transforms.
#pragma once

#include <booster/booster.h>

#include <optional>

namespace example {

struct Datasets {
  std::shared_ptr<booster::ImageDataset> train;
  std::shared_ptr<booster::ImageDataset> validation;  // of all ranks together
  std::string root;                                   // their folder
  std::vector<std::string> classes;                   // by label; names of class_folders.h
  bool made = false;                                  // generated, as no folder was given
  std::string said;                                   // a message about them for the user
};

// Opens the images in data.root, or in the folder that the environment variable DATA names. Without
// either, rank 0 creates a small set in output_dir/small_set. Transforms are the tutorial's, scaled
// to the model's image size. The folder, or an archive of it (ImageFolder), has one of these
// layouts:
// * one folder per class;
// * such folders in `train`, and those for validation in `val`, `valid`, `validation` or `test`;
// * Caltech101's 101_ObjectCategories.
// Throws an Error of kind data for any other folder, and for more classes than model.num_classes,
// if given.
Datasets open_datasets(const booster::Config& config, const booster::World& world);

// Returns whether the folder or archive has the original layout of Caltech101.
bool is_caltech101(const std::string& root);

// Returns the config with the model's number of outputs set to `classes`, unless it is given.
booster::Config for_classes(const booster::Config& config, int64_t classes);

// Returns the configured number of the model's outputs; nothing if it follows from the data.
std::optional<int64_t> outputs(const booster::Config& config);

// Returns the transforms for validation images, before any model of this config.
booster::Compose evaluation_transform(const booster::Config& config);

// Returns batch size, workers, prefetch, seed and the handling of bad images; neither shuffles nor
// drops the last batch.
booster::DataLoaderOptions loader_options(const booster::Config& config);

}  // namespace example
