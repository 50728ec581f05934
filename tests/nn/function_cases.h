// Every function of core/nn/functional.h under the names of tests/golden/nn/functions.json, so that
// one list serves the golden numbers, the gradient checks and the dtype checks.
#pragma once

#include "tests/nn/golden.h"

#include <functional>

namespace booster::testing {

struct FunctionCase {
  std::string name;
  std::function<Tensor(const std::vector<Tensor>&)> function;
  Json golden;

  // Hashed arguments in the dtype; whole-number arguments stay i64.
  std::vector<Tensor> inputs(DType dtype) const;
  bool wants_gradient(size_t input) const { return !golden["grads"][input].is_null(); }
};

const std::vector<FunctionCase>& function_cases();

}  // namespace booster::testing
