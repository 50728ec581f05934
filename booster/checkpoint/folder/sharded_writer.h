// Writes tensors into safetensors files of limited size while more tensors arrive. The result is
// one file, or several with an index (booster/checkpoint/safetensors/shard_index.h).
//
// Files are cut as by Hugging Face's libraries: a tensor goes into the open file unless that would
// exceed the limit; then it opens the next one. A tensor above the limit has its own file. At most
// about one file's worth of tensors waits in memory. Small files of several kinds are written in
// parallel, one thread each. For one thread.
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
  // Writes into an existing folder. A file holds at most `limit` bytes of tensors, or one tensor.
  ShardedWriter(std::filesystem::path folder, uint64_t limit)
      : folder_(std::move(folder)), limit_(limit) {}

  // Adds a tensor and keeps it until it is written. Add all tensors of one `stem` before the next.
  // Stem "model" gives model.safetensors or model-00001-of-00002.safetensors and so on.
  void add(const std::string& stem, const std::string& name, const Tensor& tensor);
  // Begins a stem: its file is written even if no tensor follows.
  void begin(const std::string& stem);
  // Returns true if more waits than one file may hold.
  bool is_full() const { return waiting_ > limit_; }
  // Writes the files that are complete. Errors are FileWriter's.
  void write();
  // Writes the rest and the indexes, gives the files their final names and lists them. Call it
  // once, at the end.
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

// Converts MiB, the unit of the options, to bytes. Throws an Error beginning with `what` unless it
// is above 0.
uint64_t shard_limit(double size_per_shard, const char* what);

// Writes and syncs a new file with this content.
ManifestFile write_new_file(const std::filesystem::path& folder, const std::string& name,
                            std::string_view content);

}  // namespace booster
