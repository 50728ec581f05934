// Saving and resuming a training run: all state that affects what comes next, so that a resumed run
// continues bit for bit on the same layout.
#pragma once

#include "booster/boosted.h"
#include "booster/checkpoint/checkpoint.h"

#include <filesystem>
#include <optional>

namespace booster {

// The position of a training run, in addition to the state of its parts.
struct Progress {
  int64_t step = 0;  // optimizer steps taken or skipped
  int64_t epoch = 0;
  nlohmann::json extra = nlohmann::json::object();  // the program's own
};

// Writes ROOT/step-N: model (safetensors), optimizer, scheduler, loss scaler, loader position and
// every rank's random stream. All ranks must call it; rank 0 writes. Errors are those of
// save_checkpoint; on other ranks an error says that rank 0 failed.
void save_training(const std::filesystem::path& root, Boosted& boosted, const Progress& progress,
                   int keep = 2);

// Loads the newest complete checkpoint under `root` into the boosted objects; nothing if there is
// none. All ranks must call it. All or nothing: a checkpoint of another model, precision or number
// of ranks is an error, and nothing is changed.
std::optional<Progress> resume_training(const std::filesystem::path& root, Boosted& boosted,
                                        const std::function<void(const std::string&)>& report);

}  // namespace booster
