// model.safetensors.index.json: maps each tensor to its file for a model that is split over several
// files. Hugging Face's libraries write and read the same format.
//
// An index is untrusted input. It may only name plain file names in its own folder, so it cannot
// lead elsewhere. Values; thread-safe.
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
  // Returns each file once, sorted by name.
  std::vector<std::string> files() const;
  std::set<std::string> tensors_of(const std::string& file) const;
};

// Throws an Error of kind data, beginning with `file`, if the text is not an index, names no
// tensor, names a tensor twice, or names a file that is not a plain name ending with
// ".safetensors".
ShardIndex parse_shard_index(std::string_view text, const std::string& file);
ShardIndex read_shard_index(const std::filesystem::path& path);

// Returns the path of the file `name` next to the index. Throws an Error of kind data if it is
// missing. A link may lead into the folder or into the `blobs` folder two levels up, where Hugging
// Face's cache keeps the targets of its links; any other target is an error too.
std::filesystem::path shard_beside(const std::filesystem::path& folder, const std::string& name);

// Throws an Error of kind data, beginning with `file`, unless these are the tensors that the index
// places in this file.
void check_shard(const ShardIndex& index, const std::filesystem::path& file,
                 const std::vector<std::string>& tensors);

// Returns "model.safetensors", or "model-00002-of-00003.safetensors" if there are several files.
// `stem` is "model" or "model.VARIANT".
std::string shard_name(const std::string& stem, size_t number, size_t count);

// "model.safetensors.index.json", "model.safetensors.index.VARIANT.json"
std::string index_name(const std::string& stem);

}  // namespace booster
