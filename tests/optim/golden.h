// Reads the golden values of tests/golden/optim and makes tensors of them.
#pragma once

#include "core/optim/optimizer.h"
#include "core/tensor/tensor.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

namespace booster::test {

using Json = nlohmann::json;
using Numbers = std::vector<double>;

inline Json golden(const std::string& name) {
  std::ifstream file(golden_folder() + "/optim/" + name + ".json");
  REQUIRE(file.good());
  return Json::parse(file);
}

inline Tensor tensor_of(const Json& values, const Json& shape, DType dtype) {
  const Tensor exact = from_vector(values.get<Numbers>(), Shape(shape.get<std::vector<int64_t>>()));
  return untracked::cast(exact, dtype);
}

// Returns leaves that require gradients, sorted by name.
inline Parameters parameters_of(const Json& values, const Json& shapes, DType dtype) {
  Parameters parameters;
  for (const auto& [name, numbers] : values.items()) {
    parameters.push_back({name, tensor_of(numbers, shapes[name], dtype)});
    parameters.back().tensor.requires_grad_();
  }
  return parameters;
}

// Sets every parameter's gradient from `grads`, or clears it if it has none there.
inline void set_grads(const Parameters& parameters, const Json& grads, const Json& shapes) {
  for (const auto& [name, tensor] : parameters)
    tensor.set_grad(grads.contains(name) ? tensor_of(grads[name], shapes[name], tensor.dtype())
                                         : Tensor());
}

inline void check_close(const Numbers& got, const Numbers& want, double relative, double absolute) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CAPTURE(i);
    CAPTURE(got[i]);
    CAPTURE(want[i]);
    CHECK(std::abs(got[i] - want[i]) <= std::abs(want[i]) * relative + absolute);
  }
}

// Booleans of the file count as 0 and 1.
inline OptimizerOptions options_in(const Json& json) {
  OptimizerOptions options;
  for (const auto& [name, value] : json.items())
    options[name] = value.is_boolean() ? double(value.get<bool>()) : value.get<double>();
  return options;
}

}  // namespace booster::test
