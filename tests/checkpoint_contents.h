// A whole checkpoint as one value, written and read at once.
#pragma once

#include "booster/checkpoint/folder/checkpoint.h"
#include "booster/checkpoint/folder/checkpoint_files.h"
#include "booster/checkpoint/folder/manifest.h"

namespace booster::test {

struct CheckpointContents {
  int64_t step = 0;
  TensorMap model, optimizer, precision, program;
  nlohmann::json state = nlohmann::json::object(), about = nlohmann::json::object();
};

// Writes ROOT/step-N and returns its path.
inline std::filesystem::path save_checkpoint(const std::filesystem::path& root,
                                             const CheckpointContents& contents,
                                             const SaveOptions& options = {}) {
  check_save(contents.step, options, contents.state);
  CheckpointWriter writer(root, contents.step, options);
  const auto add = [&](TensorKind kind, const TensorMap& tensors) {
    for (const auto& [name, tensor] : tensors) writer.add(kind, name, tensor);
  };
  add(TensorKind::model, contents.model);
  add(TensorKind::optimizer, contents.optimizer);
  add(TensorKind::precision, contents.precision);
  add(TensorKind::program, contents.program);
  return writer.commit(contents.state, contents.about);
}

// Returns the contents of one folder.
inline CheckpointContents load_checkpoint(const std::filesystem::path& folder) {
  const CheckpointReader reader(folder);
  CheckpointContents contents;
  contents.step = reader.manifest().step;
  contents.about = reader.manifest().about;
  TensorMap* const all[] = {&contents.model, &contents.optimizer, &contents.precision,
                            &contents.program};
  for (const TensorKind kind : tensor_kinds)
    for (const std::string& file : reader.files(kind))
      all[static_cast<size_t>(kind)]->merge(reader.load(kind, file));
  contents.state = reader.state();
  return contents;
}

}  // namespace booster::test
