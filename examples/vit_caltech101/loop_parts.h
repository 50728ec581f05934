// What the loop of any program that trains by a config does alike, whatever the model.
#pragma once

#include <booster/booster.h>

#include <nlohmann/json.hpp>

namespace example {

// Forward and backward of one batch, and its loss; gradients stay on this rank unless it is the
// last of a step.
double backward(const booster::Booster& booster, booster::Boosted& boosted,
                const booster::Batch& batch, bool last);

// Settings that the library does not know, for its checkpoints: "train.accumulate".
nlohmann::json own_settings(const booster::Config& config);

// For a training that goes on at `step` of `total`. With more ranks or larger batches an epoch has
// fewer steps: an error if that lets the last step pass before `train.epochs` are over.
void check_steps_left(const booster::Config& config, const booster::DataLoader& data, int64_t step,
                      int64_t total);

}  // namespace example
