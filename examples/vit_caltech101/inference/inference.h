// What a trained model is used for: --evaluate and --predict, with the newest checkpoint of
// train.output_dir or another, and the config that it was trained with. Nothing of the training
// changes.
#pragma once

#include <booster/booster.h>

#include <optional>

namespace example {

// The program's exit code, if the config asks for one of the two; nothing if it is to train. All
// ranks call it; the first one prints.
//
// --evaluate: top-1, top-5 and loss on the images kept for validation, or on all images of a folder
// with one for each class; evaluation.json and confusion.svg in train.output_dir.
// --predict: the most probable classes of each file. A file that is no image is told, and the exit
// code is 1 then.
std::optional<int> infer(const booster::Config& config, const booster::World& world);

}  // namespace example
