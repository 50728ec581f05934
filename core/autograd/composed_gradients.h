// Second derivatives of a function whose formula runs kernels, by the same function composed of
// differentiable ones. For formulas marked `twice` (tape.h), while gradients are enabled.
#pragma once

#include "core/autograd/tape.h"

#include <functional>
#include <optional>
#include <span>
#include <vector>

namespace booster {

// Writes to d the gradients of f(inputs) for the gradients g of its results (undefined: none), on
// the tape. It differentiates f at aliases of the inputs, so that one input's gradient is not part
// of another's. `inputs` are in the order of the recorded call; undefined ones stay so.
using ComposedFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)>;
void differentiate_composed(const std::vector<Tensor>& inputs, std::span<const Tensor> g,
                            Gradients& d, const ComposedFunction& f);

// An input whose values its gradient does not depend on, such as a bias: its shape and dtype.
class InputForm {
 public:
  explicit InputForm(const Tensor& x);
  // Returns zeros of this form; undefined for an undefined input.
  Tensor zero(Device device) const;

 private:
  std::optional<Shape> shape_;
  DType dtype_ = DType::f32;
};

}  // namespace booster
