// The weights of a model alone, as Hugging Face's libraries keep them: a safetensors file, or a
// folder with several and an index. What Booster::save_model and load_model are made of.
#pragma once

#include "booster/checkpoint/safetensors/shard_index.h"
#include "booster/training/boosted.h"
#include "core/nn/file_form.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace booster {

struct SaveModelOptions {
  bool shard = false;            // a folder; with an index, if the model takes more than one file
  double size_per_shard = 1024;  // MiB of tensors in a file
  std::string prefix = {};       // a variant's name in those of the files: model.PREFIX.safetensors
};

// Both are called by all ranks; errors on any are errors on all.
void save_model(const BoostedModel& model, const std::filesystem::path& checkpoint,
                const SaveModelOptions& options);
void load_model(const BoostedModel& model, const std::filesystem::path& checkpoint, bool strict);

// The files of a model.
struct ModelFiles {
  std::filesystem::path index_path;  // empty: there is none, and one file
  std::optional<ShardIndex> index;
  std::vector<std::filesystem::path> files;
};
// `path`: a safetensors file, an index, or a folder that has the one or the other. Error of kind
// data if it is none, or an index names a file that is not there or lies elsewhere.
ModelFiles find_model_files(const std::filesystem::path& path);
// What all names in files begin with, where they were saved of a model that DistributedDataParallel
// ("module.") or torch.compile ("_orig_mod.") had wrapped, and the model's own do not; else "".
std::string wrapper_of(const StoredShapes& stored, const Module& model);
// The name within the wrapper.
std::string without(const std::string& wrapper, const std::string& name);
// By its name.
bool is_index(const std::filesystem::path& path);
// Error of kind data if the index says otherwise than the headers of its files: of one file, and of
// the bytes of all together.
void check_against_index(const ModelFiles& model, const std::filesystem::path& file,
                         const std::vector<std::string>& tensors);
void check_total_size(const ModelFiles& model, uint64_t bytes);

}  // namespace booster
