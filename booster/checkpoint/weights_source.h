// The weights that a path of the user's names: of a training, of a checkpoint, or a model's alone.
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

// `path`: a checkpoint; the folder of a training or of checkpoints, which stands for its newest
// whole one; else a model's files. `report` and errors are those of latest_checkpoint.
WeightsSource find_weights(const std::filesystem::path& path,
                           const std::function<void(const std::string&)>& report);

// Whether a path names any, by what the files are called; nothing is read.
bool holds_weights(const std::filesystem::path& path);
// A folder with a manifest.
bool is_checkpoint(const std::filesystem::path& folder);

}  // namespace booster
