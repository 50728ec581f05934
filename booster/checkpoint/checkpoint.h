// Checkpoints: folders ROOT/step-000000123 that are complete or do not exist.
//
//   model.safetensors  optimizer.safetensors  state.json  manifest.json
//   precision.safetensors, if the precision strategy has its own tensors
//
// A checkpoint is written to a temporary folder, every file fsynced, and committed by a rename once
// manifest.json holds the size and SHA-256 of each file, taken as its bytes are written; only then
// are older ones removed.
// ROOT/latest is a link for humans; programs find the newest folder whose files match its manifest.
// One process saves (rank 0); any may load.
#pragma once

#include "booster/checkpoint/manifest.h"
#include "booster/checkpoint/safetensors.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace booster {

struct CheckpointContents {
  int64_t step = 0;
  TensorMap model;
  TensorMap optimizer;
  TensorMap precision;
  // Scheduler, scaler, sampler, random streams and the optimizer's numbers. Must hold no NaN or
  // infinity (JSON has none); 64-bit unsigned numbers keep every bit.
  nlohmann::json state = nlohmann::json::object();
  nlohmann::json about = nlohmann::json::object();  // versions, ranks: for information only
};

// Writes ROOT/step-N and removes all but the newest `keep` complete checkpoints. Returns the
// folder's path. On an Error (kind failed: full disk, no permission) earlier checkpoints are kept.
std::filesystem::path save_checkpoint(const std::filesystem::path& root,
                                      const CheckpointContents& contents, int keep = 2);

// The folder's manifest, after comparing every file with it; Error of kind data if one differs, or
// it does not name the files of a checkpoint.
Manifest verify_checkpoint(const std::filesystem::path& folder);

// Loads one folder: each file is read once, and what was loaded is what its manifest names. Error
// of kind data if anything does not match.
CheckpointContents load_checkpoint(const std::filesystem::path& folder);

// The newest complete checkpoint under `root`, or none if there is no checkpoint at all. Broken
// ones are skipped and reported, one sentence each; if all are broken, the last sentence is thrown.
std::optional<std::filesystem::path> latest_checkpoint(
    const std::filesystem::path& root, const std::function<void(const std::string&)>& report);

// If names, shapes or dtypes differ: an Error of kind data that names the first few missing,
// unexpected and different ones. `what` names the checkpoint in errors.
void check_tensors(const TensorMap& into, const TensorMap& from, const std::string& what);
// Copies `from` into the tensors of `into`, name by name, after that check.
void assign_tensors(const TensorMap& into, const TensorMap& from, const std::string& what);

}  // namespace booster
