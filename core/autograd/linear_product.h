// Results of `linear` that are computed when something first reads them. The loss of a language
// model has no need of them: cross_entropy computes logits by a few rows at a time.
#pragma once

#include "core/autograd/tape.h"
#include "core/tensor/computed_on_use.h"

#include <memory>

namespace booster {

// The product x weight^T + bias of linear_on_use.
struct LinearProduct : Recipe {
  // As the op policy made them, with their tape; bias may be undefined.
  Tensor x, weight, bias;
  // Of the gradients of weight and bias, where no tape records them.
  DType dweight, dbias;

  LinearProduct(const Tensor& x, const Tensor& weight, const Tensor& bias, DType dweight,
                DType dbias)
      : x(x),
        weight(weight),
        bias(bias),
        dweight(dweight),
        dbias(dbias),
        versions_{x.version(), weight.version(), bias.defined() ? bias.version() : 0} {}
  DType dtype() const override { return x.dtype(); }
  // Returns x as a matrix, off the tape. Throws if an argument was changed in place since.
  Tensor rows() const;
  void write(const Tensor& y) const override;

 private:
  uint32_t versions_[3];
};

// Returns the product of which x holds the values, or of which it holds this rank's columns
// (spread_columns.h), unread so far. Null if there is none, or if a hook waits for the gradient of
// x or of the product.
std::shared_ptr<const LinearProduct> linear_product(const Tensor& x);

}  // namespace booster
