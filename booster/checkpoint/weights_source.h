// Finds the weights that a user's path means: of a training, of a checkpoint, or of a model alone.
// Thread-safe.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace booster {

struct WeightsSource {
  std::filesystem::path weights;  // a checkpoint, or a model's files (model_files.h)
  std::filesystem::path run;      // the training's folder, with a run.json; empty: unknown
};

// `path` is a checkpoint, the folder of a training or of checkpoints (its newest complete one
// counts), or a model's files. Reports and throws as latest_checkpoint does.
WeightsSource find_weights(const std::filesystem::path& path,
                           const std::function<void(const std::string&)>& report);

// Returns whether a path holds weights, judged by file names; reads no file.
bool holds_weights(const std::filesystem::path& path);
// Returns whether the folder has a manifest.
bool is_checkpoint(const std::filesystem::path& folder);

}  // namespace booster
