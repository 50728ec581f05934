// What happens to images on their way into the training: each for itself, and batches.
#pragma once

#include <booster/booster.h>

namespace example {

// The tutorial's transforms for images of `side` pixels, with what the config adds to them.
booster::Compose training_transform(const booster::Config& config, int side);

// Of a config's section data.
booster::RandAugmentOptions rand_augment_options(const booster::OptionValues& data);

// How the images to train on are loaded: shuffled, whole batches only, repeated and mixed as the
// config says. `classes`: those of the data, unless the model has more outputs.
booster::DataLoaderOptions training_loader_options(const booster::Config& config, int64_t classes);

// Whether batches leave the loader with probabilities for labels, which are smoothed already.
bool mixes(const booster::Config& config);

// For images to train on and to validate on alike: 256 pixels to crop 224 of, and so in proportion.
int resize_side(int crop);
booster::Normalize normalization();

}  // namespace example
