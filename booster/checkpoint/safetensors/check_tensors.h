// Whether tensors from a file are those that are wanted: by name, shape and dtype.
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

// If names, shapes or dtypes differ: an Error of kind data that names the first few missing,
// unexpected and different ones. `what` begins it.
void check_tensors(const TensorForms& wanted, const TensorMap& got, const std::string& what);

}  // namespace booster
