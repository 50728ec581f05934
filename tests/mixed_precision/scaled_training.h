// The smallest training under a loss scaler.
#pragma once

#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/optim/optimizers.h"
#include "mixed_precision/scaling/loss_scaler.h"

namespace booster::test {

// One parameter of value 1; its gradient under loss `w * g` is g.
struct ScaledTraining {
  Tensor w = from_vector<float>({1}, {1}).requires_grad_();
  SGD optimizer{{w}, {.lr = 0.5}};

  void backward(GradScaler& scaler, double gradient) {
    optimizer.zero_grad();
    booster::backward(scaler.scale(sum(w * gradient)));
  }
};

}  // namespace booster::test
