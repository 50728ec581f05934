// Writing and reading the files of a checkpoint (checkpoint.h says what they are).
#pragma once

#include "booster/checkpoint/folder/checkpoint.h"
#include "booster/checkpoint/safetensors/safetensors.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace booster {

struct Manifest;  // manifest.h
struct ManifestFile;

// The kinds of tensors that a checkpoint keeps apart, in one or more files each.
enum class TensorKind : uint8_t { model, optimizer, precision, program };
inline constexpr TensorKind tensor_kinds[] = {TensorKind::model, TensorKind::optimizer,
                                              TensorKind::precision, TensorKind::program};
// "model"
const char* name_of(TensorKind kind);

// Throws an Error if a save cannot begin: step or options out of range, or a state (its text or its
// numbers) that JSON cannot hold.
void check_save(int64_t step, const SaveOptions& options, const nlohmann::json& state);

// Writes one checkpoint, tensor by tensor; it stays invisible until commit(). Errors are of kind
// failed (full disk, no permission), and earlier checkpoints are kept. For one thread at a time.
class CheckpointWriter {
 public:
  CheckpointWriter(const std::filesystem::path& root, int64_t step, const SaveOptions& options);
  ~CheckpointWriter();

  // Adds a tensor and keeps it until it is written. Add all tensors of one kind before the next
  // kind.
  void add(TensorKind kind, const std::string& name, const Tensor& tensor);
  // Returns true if more is queued than one file may hold, so that write() is due.
  bool is_full() const;
  void write();
  // Commits the checkpoint, removes all but the newest SaveOptions::keep complete ones, and returns
  // its folder. `state` holds what scheduler, scaler, sampler, random streams and the optimizer's
  // scalars need. It must hold no NaN or infinity (JSON has none); 64-bit unsigned integers keep
  // every bit. `about` (versions, ranks) is for information only.
  std::filesystem::path commit(const nlohmann::json& state, const nlohmann::json& about);

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

// Returns the folder's manifest after comparing every file with it. Throws an Error of kind data if
// a file differs or the manifest does not name the files of a checkpoint.
Manifest verify_checkpoint(const std::filesystem::path& folder);

// Reads one folder, each file once, and checks the bytes read against the manifest. Throws an Error
// of kind data if anything does not match, of kind failed if a file cannot be read now.
class CheckpointReader {
 public:
  explicit CheckpointReader(const std::filesystem::path& folder);

  const Manifest& manifest() const { return *manifest_; }
  nlohmann::json state() const;
  // Returns the files that hold the kind's tensors, in a fixed order; several files have an index.
  std::vector<std::string> files(TensorKind kind) const;
  TensorMap load(TensorKind kind, const std::string& file) const;

 private:
  const ManifestFile* find(const std::string& name) const;
  template <class Read>
  auto read_listed(const std::string& name, Read&& read) const;

  std::filesystem::path folder_;
  std::shared_ptr<const Manifest> manifest_;
};

}  // namespace booster
