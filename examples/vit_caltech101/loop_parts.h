// What the loop of any program that trains by a config does alike, whatever the model.
#pragma once

#include <booster/booster.h>

#include <nlohmann/json.hpp>

namespace example {

// Steps of an epoch, of `accumulate` batches each. The last one takes those that are left, and is
// of their mean, so that no batch is computed for nothing.
int64_t steps_of_epoch(const booster::DataLoader& data, int64_t accumulate);
// In the body of a loop over the loader: how many batches make the step that begins with this one.
int64_t parts_of_step(const booster::DataLoader& data, int64_t accumulate);

// Forward and backward of one of the `parts` batches of a step, and its share of the step's loss.
// Gradients stay on this rank unless it is the last of them.
double backward(const booster::Booster& booster, booster::Boosted& boosted,
                const booster::Batch& batch, int64_t parts, bool last);

// Settings that the library does not know, for its checkpoints: "train.accumulate".
nlohmann::json own_settings(const booster::Config& config);

// For a training that goes on at `step` of `total`. With more ranks or larger batches an epoch has
// fewer steps: an error if that lets the last step pass before `train.epochs` are over.
void check_steps_left(const booster::Config& config, const booster::DataLoader& data, int64_t step,
                      int64_t total);

}  // namespace example
