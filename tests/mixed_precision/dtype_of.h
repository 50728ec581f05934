// Returns the dtype in which a model keeps one of its tensors.
#pragma once

#include "core/nn/module.h"

#include <doctest/doctest.h>

#include <string>

namespace booster::testing {

inline DType dtype_of(const Model& model, const std::string& name) {
  for (const auto& [key, tensor] : model.state_dict())
    if (key == name) return tensor.dtype();
  FAIL("no tensor " << name);
  return DType::f64;
}

}  // namespace booster::testing
