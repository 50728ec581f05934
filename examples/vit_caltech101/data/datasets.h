// The images of a run: their location, split and transforms.
#pragma once

#include <booster/booster.h>

#include <optional>

namespace example {

struct Datasets {
  std::shared_ptr<booster::ImageDataset> train;
  std::shared_ptr<booster::ImageDataset> validation;  // of all ranks
  std::string root;                                   // their folder
  std::vector<std::string> classes;                   // by label; names of class_folders.h
  bool made = false;                                  // a made-up set, for want of a folder
  std::string said;                                   // what to tell the user about them
};

// The images in data.root, or in the folder that the environment variable DATA names; without
// either, a small set that rank 0 creates in output_dir/small_set. The folder, or the archive of it
// (ImageFolder), has one for each class; or such folders in `train`, and those to validate on in
// `val`, `valid`, `validation` or `test`; or Caltech101's 101_ObjectCategories. The tutorial's
// transforms, scaled to the model's image size. Error of kind data for a folder that is none of
// these, and for more classes than model.num_classes, if that is given.
Datasets open_datasets(const booster::Config& config, const booster::World& world);

// Whether the folder, or the archive, holds Caltech101 as its authors laid it out.
bool is_caltech101(const std::string& root);

// With as many outputs of the model as there are classes, unless the config says how many.
booster::Config for_classes(const booster::Config& config, int64_t classes);

// Outputs of the model; none if it has as many as the data have classes.
std::optional<int64_t> outputs(const booster::Config& config);

// What images to validate on go through, before any model of this config.
booster::Compose evaluation_transform(const booster::Config& config);

// Batch size, workers, prefetch, seed and what a bad image does; neither shuffled nor cut.
booster::DataLoaderOptions loader_options(const booster::Config& config);

}  // namespace example
