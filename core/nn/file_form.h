// How files of weights alone keep a model that is Hugging Face's there and has another form in
// memory: Booster::save_model and load_model ask the model for it.
#pragma once

#include "core/nn/module.h"

#include <map>
#include <string>
#include <vector>

namespace booster {

// Of everything that a model's files hold, by name.
using StoredShapes = std::map<std::string, std::vector<uint64_t>>;

// A module that is such a model derives from this too. Tensors are whole ones, under their names in
// the module's state_dict or in the files; results may be views of them.
class FileForm {
 public:
  virtual ~FileForm() = default;
  virtual NamedTensor to_file(const NamedTensor& own) const = 0;
  // Of a file's tensor; `all` tells, because files may also be in the module's own form, as a
  // checkpoint's are. An undefined tensor if the model has no use for it. Two of the files' tensors
  // may come back under one name: then they must be equal.
  virtual NamedTensor from_file(const NamedTensor& stored, const StoredShapes& all) const = 0;
};

}  // namespace booster
