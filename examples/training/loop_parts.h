// Parts of a training loop that every program with a config shares, whatever the model.
#pragma once

#include <booster/booster.h>

#include <nlohmann/json.hpp>

namespace example {

// Throws unless the plugin trains on all ranks, as `single` does not.
void check_all_ranks_train(const booster::Booster& booster, const booster::World& world);

// Returns the steps of an epoch, of `accumulate` batches each. The last step takes the batches that
// are left and averages over them, so that no batch is wasted.
int64_t steps_of_epoch(const booster::DataLoader& data, int64_t accumulate);
// Returns the number of batches of the step that begins with the loader's current batch. Call it in
// the body of a loop over the loader.
int64_t parts_of_step(const booster::DataLoader& data, int64_t accumulate);

// Runs forward and backward of one of the `parts` batches of a step. Returns its share of the
// step's loss. Gradients stay on this rank unless `last`.
double backward(const booster::Booster& booster, booster::Boosted& boosted,
                const booster::Batch& batch, int64_t parts, bool last);

// Returns the settings that the library does not know, for its checkpoints: "train.accumulate".
nlohmann::json own_settings(const booster::Config& config);

// Checks a training that resumes at `step` of `total`. With more ranks or larger batches an epoch
// has fewer steps. Throws if `step` is already past `total` although fewer than `train.epochs`
// epochs are done.
void check_steps_left(const booster::Config& config, const booster::DataLoader& data, int64_t step,
                      int64_t total);

}  // namespace example
