// model.safetensors.index.json: in which file each tensor of a model is that was written in several
// files, as Hugging Face's libraries write and read it.
//
// An index may come from anybody. It names files by plain names in its own folder, so nothing it
// says leads elsewhere. Values; thread-safe.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace booster {

struct ShardIndex {
  uint64_t total_size = 0;                        // bytes of all tensors
  std::map<std::string, std::string> weight_map;  // tensor -> file

  std::string to_text() const;
  // Each once, in the order of their names.
  std::vector<std::string> files() const;
  std::set<std::string> tensors_of(const std::string& file) const;
};

// Error of kind data if it is not an index, names no tensor, a tensor twice, or as a file anything
// but a plain name that ends with ".safetensors". `file` begins it.
ShardIndex parse_shard_index(std::string_view text, const std::string& file);
ShardIndex read_shard_index(const std::filesystem::path& path);

// The file of that name beside the index. Error of kind data if it is missing, or a link that leads
// elsewhere than into the folder or the `blobs` two folders above, where Hugging Face's cache
// keeps what its links stand for.
std::filesystem::path shard_beside(const std::filesystem::path& folder, const std::string& name);

// Error of kind data unless these are the tensors that the index says are in this file, which
// begins it.
void check_shard(const ShardIndex& index, const std::filesystem::path& file,
                 const std::vector<std::string>& tensors);

// "model.safetensors", or "model-00002-of-00003.safetensors" where there are several.
// `stem`: "model", or "model.VARIANT".
std::string shard_name(const std::string& stem, size_t number, size_t count);

// "model.safetensors.index.json", "model.safetensors.index.VARIANT.json"
std::string index_name(const std::string& stem);

}  // namespace booster
