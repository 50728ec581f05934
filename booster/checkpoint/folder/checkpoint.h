// Checkpoints: folders ROOT/step-000000123 that are either complete or absent.
//
//   model.safetensors  optimizer.safetensors  state.json  manifest.json
//   precision.safetensors  (if the precision strategy has tensors of its own)
//   program.safetensors    (if the program has some)
//
// A kind that is larger than one file may be is split (model-00001-of-00002.safetensors) and has an
// index (model.safetensors.index.json). A checkpoint is written to a temporary folder and every
// file is fsynced. manifest.json holds each file's size and SHA-256, computed while its bytes are
// written. A rename then commits the folder; only after that are older checkpoints removed.
// ROOT/latest is a link for humans. Programs use the newest folder whose files match its manifest.
// One process saves (rank 0); any process may load.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace booster {

struct SaveOptions {
  int keep = 2;                  // number of newest complete checkpoints to keep
  double size_per_shard = 1024;  // MiB of tensors per file; also about the size of the write queue
};

// Returns the newest complete checkpoint under `root`, or nothing if there is no checkpoint at all.
// Skips broken ones and reports each in one sentence; if all are broken, throws the last sentence.
// Throws an Error of kind failed if it cannot read `root` or a checkpoint that may be complete. So
// a disk that is briefly unavailable neither selects an older checkpoint nor restarts the training.
std::optional<std::filesystem::path> latest_checkpoint(
    const std::filesystem::path& root, const std::function<void(const std::string&)>& report);

// Returns the SHA-256 of FOLDER/manifest.json, which identifies the whole checkpoint. Ranks compare
// it to check that they see the same one.
std::string manifest_hash(const std::filesystem::path& folder);

// A setting whose value differs between the saved training and the one that resumes it, as text:
// "optimizer.lr", "0.001", "0.5".
struct SettingChange {
  std::string name, before, now;
};

// --- the weights that a user's path means: of a training, of a checkpoint, or of a model alone.
// Thread-safe.
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
// Returns a checkpoint's state.json: the state of all but tensors, and the program's own under
// "extra". Errors as for resume_training; a StateReader checks its values.
nlohmann::json checkpoint_state(const std::filesystem::path& checkpoint);

// Reads a checkpoint's JSON value by value and trusts none. Each value's type and range are
// checked; each Error (kind data) names the file, the key's path, what is there and what is wanted.
// A reader points into the JSON and must not outlive it.
class StateReader {
 public:
  // `file`, and the value's `path` within it, are for messages.
  StateReader(const nlohmann::json& value, std::string file, std::string path = "")
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  // Returns the values of an object with exactly these members, in this order. It may also have the
  // members in `newer`, which older versions did not write.
  std::vector<StateReader> members(std::initializer_list<const char*> names,
                                   std::initializer_list<const char*> newer = {}) const;
  // Reads a member of an object that may have others. find() returns none if it is missing or null.
  StateReader member(const std::string& name) const;
  std::optional<StateReader> find(const std::string& name) const;
  // Returns the items of a list; throws unless there are exactly `size`, if given.
  std::vector<StateReader> items(std::optional<size_t> size = {}) const;
  std::vector<StateReader> nonempty_items() const;

  std::string text() const;
  bool flag() const;
  double number() const;                    // finite
  int64_t count() const;                    // integer, 0 to 2^53
  int64_t positive() const;                 // integer, 1 to 2^53
  int64_t whole_from(int64_t least) const;  // integer, `least` to 2^53; -1: a count may be absent
  uint64_t bits() const;                    // integer, 0 to 2^64 - 1
  // Returns an object of arbitrary content, which the program defines.
  const nlohmann::json& object() const;
  std::map<std::string, double> numbers() const;
  std::map<std::string, int64_t> counts() const;
  std::map<std::string, std::string> texts() const;

 private:
  [[noreturn]] void wrong(const std::string& want) const;
  template <class T>
  std::map<std::string, T> map_of(T (StateReader::*read)() const) const;

  const nlohmann::json* value_;
  std::string file_, path_;
};

}  // namespace booster
