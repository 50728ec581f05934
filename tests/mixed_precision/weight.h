// The smallest trainable model: y = x w, so that the gradient of sum(y) by w is x.
#pragma once

#include "core/autograd/functions.h"
#include "core/nn/module.h"

namespace booster::testing {

struct Weight : Module {
  explicit Weight(const Tensor& start) : Module("Weight"), w(add_parameter("w", start)) {}
  Tensor forward(const Tensor& x) override { return x * w; }
  const Tensor w;
};

}  // namespace booster::testing
