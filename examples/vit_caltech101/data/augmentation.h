// Augmentation of training images, one by one and in batches.
#pragma once

#include <booster/booster.h>

namespace example {

// Returns the tutorial's transforms for images of `side` pixels, plus the config's additions.
booster::Compose training_transform(const booster::Config& config, int side);

// Reads the options from a config's section data.
booster::RandAugmentOptions rand_augment_options(const booster::OptionValues& data);

// Returns the loader options for training images: shuffled, whole batches only, repeated and mixed
// as the config says. `classes` is the number of classes in the data, or the model's if that is
// larger.
booster::DataLoaderOptions training_loader_options(const booster::Config& config, int64_t classes);

// Returns whether the loader's labels are class probabilities. These are already smoothed.
bool mixes(const booster::Config& config);

// Returns the resize side for a crop, for training and validation: 256 for 224, and in proportion.
int resize_side(int crop);
booster::Normalize normalization();

}  // namespace example
