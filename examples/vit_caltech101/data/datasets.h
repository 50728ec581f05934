// The images of a run: their location, split and transforms.
#pragma once

#include <booster/booster.h>

namespace example {

struct Datasets {
  std::shared_ptr<booster::ImageDataset> train;
  std::shared_ptr<booster::ImageDataset> validation;  // of all ranks
  std::string root;                                   // their folder
  bool made = false;                                  // a made-up set, for want of a folder
  std::string said;                                   // what to tell the user about them
};

// Caltech101 in data.root, or in the folder that the environment variable DATA names; without
// either, a small set that rank 0 creates in output_dir/small_set. The tutorial's transforms,
// scaled to the model's image size.
Datasets open_datasets(const booster::Config& config, const booster::World& world);

// Batch size, workers, prefetch, seed and what a bad image does; neither shuffled nor cut.
booster::DataLoaderOptions loader_options(const booster::Config& config);

}  // namespace example
