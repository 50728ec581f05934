// Tensors into safetensors files of limited size, while more are still to come: a file, or several
// with an index (booster/checkpoint/shard_index.h).
//
// Cut as by Hugging Face's libraries: a tensor goes into the file that is open unless that would
// pass the limit; then it opens the next. One that is above the limit has a file of its own. What
// waits to be written is at most about one file; little ones of several kinds are written at once,
// on a thread each. For one thread.
#pragma once

#include "booster/checkpoint/folder/manifest.h"
#include "booster/checkpoint/safetensors/safetensors.h"

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace booster {

class ShardedWriter {
 public:
  // Into a folder that exists. A file holds at most `limit` bytes of tensors, or one tensor.
  ShardedWriter(std::filesystem::path folder, uint64_t limit)
      : folder_(std::move(folder)), limit_(limit) {}

  // Of one `stem` after the other; from "model" come model.safetensors or
  // model-00001-of-00002.safetensors. Keeps the tensor until it is written.
  void add(const std::string& stem, const std::string& name, const Tensor& tensor);
  // A file is written even where no tensor comes.
  void begin(const std::string& stem);
  // True if more waits than one file may hold.
  bool is_full() const { return waiting_ > limit_; }
  // Writes the files that are complete. Errors are FileWriter's.
  void write();
  // Writes the rest and the indexes, gives files their names and lists them. Once, at the end.
  std::vector<ManifestFile> finish();

 private:
  struct Shard {
    std::string stem;
    TensorMap tensors = {};  // until it is written
    std::vector<std::string> names = {};
    uint64_t bytes = 0;
    ManifestFile file = {};  // once it is written

    void add(const std::string& name, const Tensor& tensor);
  };

  void close();
  void write(size_t shard);
  ManifestFile write_index(const std::string& stem, std::span<const Shard> shards);

  std::filesystem::path folder_;
  uint64_t limit_;
  uint64_t waiting_ = 0;  // bytes
  std::vector<Shard> shards_;   // complete
  std::optional<Shard> open_;
};

// Of MiB, as options say it. Error unless it is above 0; `what` begins it.
uint64_t shard_limit(double size_per_shard, const char* what);

// A new file with this content, synced.
ManifestFile write_new_file(const std::filesystem::path& folder, const std::string& name,
                            std::string_view content);

}  // namespace booster
