// Tensors that are computed when something first reads them, such as the logits of a language
// model. Shape and dtype are known at once. Code that can do without the whole tensor asks for the
// recipe first; for all other code it becomes an ordinary tensor.
#pragma once

#include "core/tensor/tensor.h"

#include <memory>

namespace booster {

// How a tensor is computed.
class Recipe {
 public:
  virtual ~Recipe() = default;
  // Returns the dtype of what `write` computes.
  virtual DType dtype() const = 0;
  // Writes the values into y, dense, of that dtype and of the tensor's shape.
  virtual void write(const Tensor& y) const = 0;
};

// Off the tape. The values are the recipe's, converted to `dtype`.
Tensor computed_on_use(const Shape& shape, const TensorOptions& options,
                       std::shared_ptr<const Recipe> recipe);
// Computes the tensors of this thread that a program still holds and nothing has read yet: their
// recipes' operands are about to change.
void compute_unread();
// Frees the memory of x, which fills its storage, until something reads x again; `recipe` then
// computes the same values. Its version stays. For values that are cheaper to compute than to keep.
void compute_again_on_use(const Tensor& x, std::shared_ptr<const Recipe> recipe);
// Returns the recipe of x as long as nothing has read or written it; else null. Works for views
// that only split or merge dimensions before the last.
std::shared_ptr<const Recipe> recipe_of(const Tensor& x);

}  // namespace booster
