// The form in which weights-only files keep a model, where Hugging Face's form of it differs from
// the form in memory. Booster::save_model and load_model ask the model for it.
#pragma once

#include "core/nn/module.h"

#include <map>
#include <string>
#include <vector>

namespace booster {

// Shapes of all tensors in a model's files, by name.
using StoredShapes = std::map<std::string, std::vector<uint64_t>>;

// Converts tensors between memory and files; a module whose forms differ derives from this too.
// Tensors are whole, not sharded. Names are those in the module's state_dict or in the files.
// Results may be views of the arguments.
class FileForm {
 public:
  virtual ~FileForm() = default;
  virtual NamedTensor to_file(const NamedTensor& own) const = 0;
  // Converts one tensor of a file. `all` shows in which form the files are: they may also be in the
  // module's own form, as checkpoints are. Returns an undefined tensor if the model has no use for
  // this one. Two tensors of the files may come back under one name; they must then be equal.
  virtual NamedTensor from_file(const NamedTensor& stored, const StoredShapes& all) const = 0;
};

}  // namespace booster
