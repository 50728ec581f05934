// Checks whether tensors from a file have the names, shapes and dtypes that are wanted.
#pragma once

#include "booster/checkpoint/safetensors/safetensors.h"

#include <map>
#include <string>

namespace booster {

struct TensorForm {
  Shape shape;
  DType dtype;
};
using TensorForms = std::map<std::string, TensorForm>;
TensorForms forms_of(const TensorMap& tensors);

// Throws an Error of kind data if names, shapes or dtypes differ. It begins with `what` and names
// the first few missing, unexpected and different tensors.
void check_tensors(const TensorForms& wanted, const TensorMap& got, const std::string& what);

}  // namespace booster
