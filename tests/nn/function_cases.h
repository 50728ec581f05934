// Every function of core/nn/functional.h under its name in tests/golden/nn/functions.json or
// coverage.json. The
// golden tests, the gradient checks and the dtype checks share this list.
#pragma once

#include "tests/nn/golden.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace booster::testing {

struct FunctionCase {
  std::string name;
  std::function<Tensor(const std::vector<Tensor>&)> function;
  Json golden;

  // Returns hashed arguments in the dtype; integer arguments stay i64.
  std::vector<Tensor> inputs(DType dtype) const;
  bool wants_gradient(size_t input) const { return !golden["grads"][input].is_null(); }
};

const std::vector<FunctionCase>& function_cases();
// The functions of tests/golden/nn/coverage.json (coverage_cases.cpp).
std::map<std::string, std::function<Tensor(const std::vector<Tensor>&)>> coverage_functions();

}  // namespace booster::testing
