#include "booster/checkpoint/folder/sharded_writer.h"

#include "booster/checkpoint/folder/manifest.h"
#include "booster/checkpoint/safetensors/safetensors_file.h"
#include "booster/checkpoint/safetensors/shard_index.h"
#include "platform/files/atomic_file.h"
#include "platform/files/file.h"
#include "platform/files/file_operations.h"
#include "platform/files/sha256.h"

#include <algorithm>
#include <cmath>
#include <future>
#include <map>

namespace booster {

void ShardedWriter::Shard::add(const std::string& name, const Tensor& tensor) {
  tensors.emplace(name, tensor);
  names.push_back(name);
  bytes += static_cast<uint64_t>(tensor.bytes());
}

void ShardedWriter::begin(const std::string& stem) {
  if (open_ && open_->stem == stem) return;
  close();
  open_ = Shard{.stem = stem};
}

void ShardedWriter::add(const std::string& stem, const std::string& name, const Tensor& tensor) {
  begin(stem);
  const auto bytes = static_cast<uint64_t>(tensor.bytes());
  waiting_ += bytes;
  if (bytes > limit_) {
    shards_.push_back({.stem = stem});
    return shards_.back().add(name, tensor);
  }
  if (open_->bytes + bytes > limit_) {
    close();
    open_ = Shard{.stem = stem};
  }
  open_->add(name, tensor);
}

// Every kind gets at least one file, even an empty one.
void ShardedWriter::close() {
  if (!open_) return;
  const bool is_first = shards_.empty() || shards_.back().stem != open_->stem;
  if (is_first || !open_->names.empty()) shards_.push_back(std::move(*open_));
  open_.reset();
}

// Uses a temporary name: the final names depend on the number of files, which is known at the end.
void ShardedWriter::write(size_t shard) {
  Shard& one = shards_[shard];
  const std::string name = fmt::format("{}.part-{}", one.stem, shard);
  FileWriter file(folder_ / name);
  Sha256 hash;
  file.hash_into(hash);
  write_safetensors(file, one.tensors, {{"format", "pt"}});
  file.close();
  one.file = {name, file.written(), hash.digest()};
}

// Writes each file on its own thread: writing and hashing then take as long as the largest file
// instead of the sum.
void ShardedWriter::write() {
  uint64_t bytes = 0;
  std::map<size_t, std::future<void>> writing;
  const auto waits = [](const Shard& shard) { return shard.file.name.empty(); };
  for (const Shard& shard : shards_) bytes += waits(shard) ? shard.bytes : 0;
  check_free_space(folder_, bytes + bytes / 20);
  for (size_t i = 0; i < shards_.size(); ++i)
    if (waits(shards_[i]))
      writing[i] = std::async(std::launch::async, [this, i] { write(i); });
  for (auto& [i, done] : writing) {
    done.get();
    shards_[i].tensors.clear();
    waiting_ -= shards_[i].bytes;
  }
}

ManifestFile ShardedWriter::write_index(const std::string& stem, std::span<const Shard> shards) {
  ShardIndex index;
  for (const Shard& shard : shards) {
    index.total_size += shard.bytes;
    for (const std::string& name : shard.names) index.weight_map[name] = shard.file.name;
  }
  return write_new_file(folder_, index_name(stem), index.to_text());
}

std::vector<ManifestFile> ShardedWriter::finish() {
  close();
  write();
  std::vector<ManifestFile> files;
  for (size_t first = 0; first < shards_.size();) {
    const std::string stem = shards_[first].stem;
    const auto count = static_cast<size_t>(std::ranges::count(shards_, stem, &Shard::stem));
    const std::span<Shard> all(&shards_[first], count);
    for (size_t i = 0; i < count; ++i) {
      const std::string name = shard_name(stem, i + 1, count);
      rename_to(folder_ / all[i].file.name, folder_ / name);
      all[i].file.name = name;
      files.push_back(all[i].file);
    }
    if (count > 1) files.push_back(write_index(stem, all));
    first += count;
  }
  return files;
}

uint64_t shard_limit(double size_per_shard, const char* what) {
  check(size_per_shard > 0, "{}: size_per_shard must be > 0; got {}", what, size_per_shard);
  return static_cast<uint64_t>(std::min(size_per_shard * 1024 * 1024, 0x1p62));
}

ManifestFile write_new_file(const std::filesystem::path& folder, const std::string& name,
                            std::string_view content) {
  FileWriter file(folder / name);
  Sha256 hash;
  file.hash_into(hash);
  file.write(content);
  file.close();
  return {name, file.written(), hash.digest()};
}

}  // namespace booster
