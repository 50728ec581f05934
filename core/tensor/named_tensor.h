// Tensors with names, as a model passes them to its optimizer and checkpoints. Names are dotted
// ("blocks.0.norm1.weight"), in order of registration.
#pragma once

#include "core/tensor/tensor.h"

#include <string>
#include <vector>

namespace booster {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

using Parameters = std::vector<NamedTensor>;

// True for a dotted name that is `part` or lies below it: "encoder.norm" lies in "encoder".
inline bool lies_in(const std::string& name, const std::string& part) {
  return name == part || (name.starts_with(part) && name[part.size()] == '.');
}

}  // namespace booster
