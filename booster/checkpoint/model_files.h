// The weights of a model alone, as Hugging Face's libraries keep them: a safetensors file, or a
// folder with several and an index. training_checkpoint.h has the
// functions that save and load them.
#pragma once

#include "booster/checkpoint/safetensors/shard_index.h"
#include "booster/checkpoint/training_checkpoint.h"
#include "core/nn/module_traits.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace booster {

// The files of a model.
struct ModelFiles {
  std::filesystem::path index_path;  // empty if there is no index, but one file
  std::optional<ShardIndex> index;
  std::vector<std::filesystem::path> files;
};
// Returns the files of `path`: a safetensors file, an index, or a folder that has either. Throws an
// Error of kind data if `path` is none of these, or if the index names a file that is missing or
// outside its folder.
ModelFiles find_model_files(const std::filesystem::path& path);
// Returns the prefix that all names in the files have and none of the model's names has: "module."
// of DistributedDataParallel or "_orig_mod." of torch.compile. "" if there is none.
std::string wrapper_of(const StoredShapes& stored, const Module& model);
// Returns `name` without the prefix `wrapper`.
std::string without(const std::string& wrapper, const std::string& name);
// Returns whether the path has the name of an index.
bool is_index(const std::filesystem::path& path);
// Throw an Error of kind data if the index contradicts the headers of its files: in the tensors of
// one file, or in the total bytes of all files.
void check_against_index(const ModelFiles& model, const std::filesystem::path& file,
                         const std::vector<std::string>& tensors);
void check_total_size(const ModelFiles& model, uint64_t bytes);

}  // namespace booster
