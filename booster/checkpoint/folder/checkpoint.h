// Checkpoints: folders ROOT/step-000000123 that are complete or do not exist.
//
//   model.safetensors  optimizer.safetensors  state.json  manifest.json
//   precision.safetensors, if the precision strategy has its own tensors
//   program.safetensors, if the program has some
//
// What is larger than a file may be lies in several (model-00001-of-00002.safetensors) with an
// index (model.safetensors.index.json). A checkpoint is written to a temporary folder, every file
// fsynced, and committed by a rename once manifest.json holds the size and SHA-256 of each file,
// taken as its bytes are written; only then are older ones removed.
// ROOT/latest is a link for humans; programs find the newest folder whose files match its manifest.
// One process saves (rank 0); any may load.
#pragma once

#include "booster/checkpoint/folder/manifest.h"
#include "booster/checkpoint/safetensors/safetensors.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace booster {

// What a checkpoint keeps apart, in a file each or in several.
enum class TensorKind : uint8_t { model, optimizer, precision, program };
inline constexpr TensorKind tensor_kinds[] = {TensorKind::model, TensorKind::optimizer,
                                              TensorKind::precision, TensorKind::program};
// "model"
const char* name_of(TensorKind kind);

struct SaveOptions {
  int keep = 2;                  // the newest so many complete checkpoints stay
  double size_per_shard = 1024;  // MiB of tensors in a file, and about what waits to be written
};

// Error if a save cannot begin: step or options out of range, a state (the text in it, the numbers)
// that JSON cannot hold.
void check_save(int64_t step, const SaveOptions& options, const nlohmann::json& state);

// Writes one checkpoint, tensor by tensor; nobody sees it before commit(). Errors are of kind
// failed (full disk, no permission), and earlier checkpoints are kept. For one thread at a time.
class CheckpointWriter {
 public:
  CheckpointWriter(const std::filesystem::path& root, int64_t step, const SaveOptions& options);
  ~CheckpointWriter();

  // Of one kind after the other. Keeps the tensor until it is written.
  void add(TensorKind kind, const std::string& name, const Tensor& tensor);
  // More waits than a file may hold: time to write().
  bool is_full() const;
  void write();
  // `state` and `about` as in CheckpointContents. Returns the folder's path.
  std::filesystem::path commit(const nlohmann::json& state, const nlohmann::json& about);

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

struct CheckpointContents {
  int64_t step = 0;
  TensorMap model;
  TensorMap optimizer;
  TensorMap precision;
  TensorMap program;
  // Scheduler, scaler, sampler, random streams and the optimizer's numbers. Must hold no NaN or
  // infinity (JSON has none); 64-bit unsigned numbers keep every bit.
  nlohmann::json state = nlohmann::json::object();
  nlohmann::json about = nlohmann::json::object();  // versions, ranks: for information only
};

// Writes ROOT/step-N and removes all but the newest `keep` complete checkpoints. Returns the
// folder's path. Errors are those of CheckpointWriter.
std::filesystem::path save_checkpoint(const std::filesystem::path& root,
                                      const CheckpointContents& contents,
                                      const SaveOptions& options = {});

// The folder's manifest, after comparing every file with it; Error of kind data if one differs, or
// it does not name the files of a checkpoint.
Manifest verify_checkpoint(const std::filesystem::path& folder);

// Reads one folder, file by file, each of them once; what was read is what its manifest names.
// Error of kind data if anything does not match, of kind failed if a file cannot be read now.
class CheckpointReader {
 public:
  explicit CheckpointReader(const std::filesystem::path& folder);

  const Manifest& manifest() const { return manifest_; }
  nlohmann::json state() const;
  // The files that hold the kind's tensors, in a fixed order; several have an index.
  std::vector<std::string> files(TensorKind kind) const;
  TensorMap load(TensorKind kind, const std::string& file) const;

 private:
  const ManifestFile* find(const std::string& name) const;
  template <class Read>
  auto read_listed(const std::string& name, Read&& read) const;

  std::filesystem::path folder_;
  Manifest manifest_;
};

// Loads one folder whole.
CheckpointContents load_checkpoint(const std::filesystem::path& folder);

// The newest complete checkpoint under `root`, or none if there is no checkpoint at all. Broken
// ones are skipped and reported, one sentence each; if all are broken, the last sentence is thrown.
// Error of kind failed if `root` or a checkpoint that may be complete cannot be read: no older one
// takes its place, and no training begins anew, because a disk is away for a moment.
std::optional<std::filesystem::path> latest_checkpoint(
    const std::filesystem::path& root, const std::function<void(const std::string&)>& report);

}  // namespace booster
