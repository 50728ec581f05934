// Using a trained model: --evaluate and --predict, with the newest checkpoint of train.output_dir
// or another, and the config of its training. Changes nothing of the training.
#pragma once

#include <booster/booster.h>

#include <optional>

namespace example {

// Returns the program's exit code if the config asks for one of the two; nothing if it is to train.
// Collective; rank 0 prints.
//
// --evaluate: top-1, top-5 and loss on the validation images, or on all images of a folder with one
// folder per class. Writes evaluation.json and confusion.svg in train.output_dir. --predict: prints
// the most probable classes of each file. Reports files that are not images; the exit code is 1
// then.
std::optional<int> infer(const booster::Config& config, const booster::World& world);

}  // namespace example
