// Every function of core/nn/functional.h under its name in tests/golden/nn/functions.json. The
// golden tests, the gradient checks and the dtype checks share this list.
#pragma once

#include "tests/nn/golden.h"

#include <functional>

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

}  // namespace booster::testing
