// The traits of a model and the modules in it, joined. Plain values.
#pragma once

#include "core/nn/module_traits.h"

#include <string>
#include <vector>

namespace booster {

// Returns the traits of a model and its modules, with names relative to the model. The tensor plan
// or blocks of a module hold for all below it. If two modules have blocks, neither counts.
// `position_free` is the model's own. FileForms joins the forms of files.
ModuleTraits joined_traits(Module& model);

// The file forms of a model and its modules. A module's form holds for all below it. Plain values.
class FileForms {
 public:
  // Collects the forms. `files` are the shapes of all tensors to be read; empty for writing.
  explicit FileForms(Module& model, const StoredShapes& files = {});
  NamedTensor to_file(const NamedTensor& own) const;
  NamedTensor from_file(const NamedTensor& stored) const;

 private:
  struct Part {
    std::string prefix;  // "", or prefix of a module's names: "encoder."
    FileForm form;
    StoredShapes files;  // under the prefix, without it
  };
  std::vector<Part> parts_;
};

}  // namespace booster
