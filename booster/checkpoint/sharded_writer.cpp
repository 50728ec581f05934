#include "booster/checkpoint/sharded_writer.h"

#include "booster/checkpoint/file.h"
#include "booster/checkpoint/file_operations.h"
#include "booster/checkpoint/sha256.h"
#include "booster/checkpoint/shard_index.h"

#include <algorithm>
#include <cmath>
#include <future>

namespace booster {

void ShardedWriter::begin(const std::string& stem) {
  if (!shards_.empty() && shards_.back().stem == stem) return;
  if (!shards_.empty()) shards_.back().open = false;
  shards_.push_back({.stem = stem});
}

void ShardedWriter::add(const std::string& stem, const std::string& name, const Tensor& tensor) {
  begin(stem);
  const auto bytes = static_cast<uint64_t>(tensor.bytes());
  if (shards_.back().bytes > 0 && shards_.back().bytes + bytes > limit_) {
    shards_.back().open = false;
    shards_.push_back({.stem = stem});
  }
  Shard& shard = shards_.back();
  shard.tensors.emplace(name, tensor);
  shard.names.push_back(name);
  shard.bytes += bytes;
  waiting_ += bytes;
}

void ShardedWriter::write() {
  std::vector<Shard*> complete;
  for (Shard& shard : shards_)
    if (!shard.open && shard.file.name.empty()) complete.push_back(&shard);
  write(complete);
}

// Each on a thread of its own: writing and hashing takes as long as the largest instead of the sum.
void ShardedWriter::write(const std::vector<Shard*>& shards) {
  uint64_t bytes = 0;
  for (const Shard* shard : shards) bytes += shard->bytes;
  check_free_space(folder_, bytes + bytes / 20);
  std::vector<std::future<ManifestFile>> files;
  for (Shard* shard : shards)
    files.push_back(std::async(std::launch::async, [this, shard] {
      // How many there will be, and so its name, is not known yet.
      const std::string name = fmt::format("{}.part-{}", shard->stem, shard - shards_.data());
      FileWriter file(folder_ / name);
      Sha256 hash;
      file.hash_into(hash);
      write_safetensors(file, shard->tensors, {{"format", "pt"}});
      file.close();
      return ManifestFile{name, file.written(), hash.digest()};
    }));
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i]->file = files[i].get();
    shards[i]->tensors.clear();
    waiting_ -= shards[i]->bytes;
  }
}

ManifestFile ShardedWriter::write_index(const std::string& stem,
                                        const std::vector<const Shard*>& shards) {
  ShardIndex index;
  for (const Shard* shard : shards) {
    index.total_size += shard->bytes;
    for (const std::string& name : shard->names) index.weight_map[name] = shard->file.name;
  }
  return write_new_file(folder_, index_name(stem), index.to_text());
}

std::vector<ManifestFile> ShardedWriter::finish() {
  if (!shards_.empty()) shards_.back().open = false;
  write();
  std::vector<ManifestFile> files;
  for (size_t first = 0; first < shards_.size();) {
    const std::string stem = shards_[first].stem;
    std::vector<const Shard*> all;
    const size_t count = static_cast<size_t>(std::ranges::count(shards_, stem, &Shard::stem));
    for (size_t i = first; i < first + count; ++i) {
      ManifestFile& file = shards_[i].file;
      const std::string name = shard_name(stem, i - first + 1, count);
      rename_to(folder_ / file.name, folder_ / name);
      file.name = name;
      files.push_back(file);
      all.push_back(&shards_[i]);
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
