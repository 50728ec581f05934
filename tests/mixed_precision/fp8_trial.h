// A model with fp8 layers, stepped manually as a Booster steps it.
#pragma once

#include "core/autograd/tape.h"
#include "core/nn/layers.h"
#include "core/optim/optimizers.h"
#include "core/tensor/random/random.h"
#include "mixed_precision/strategies/fp8.h"

namespace booster::testing {

struct Trial {
  Model model;
  Optimizer optimizer;
  FP8 precision;
};

inline Trial trial(Model model, FP8Options options) {
  Optimizer optimizer = SGD(model.parameters(), {.lr = 0.05});
  Trial made{model, optimizer, FP8(std::move(options))};
  made.precision.check_fits(made.model);
  made.precision.prepare(made.model, made.optimizer);
  return made;
}

// Ends a forward pass like a Booster on a single rank, which needs no agreement.
inline void end_forward(Precision& precision) {
  const SharedNumbers shared = precision.end_forward();
  if (shared.agreed) shared.agreed();
}

// Runs a backward pass of one loss in the same way.
inline void in_pass(Precision& precision, const Optimizer& optimizer,
                    const std::function<void()>& backward) {
  const LossPass pass = precision.begin_loss({.optimizers = optimizer});
  backward();
  const SharedNumbers shared = pass.end ? pass.end({}) : SharedNumbers{};
  if (shared.agreed) shared.agreed();
}

inline Tensor forward(Trial& t, const Tensor& x) {
  const PolicyScope numbers(t.precision.policy({}));
  Tensor y = t.model(x);
  if (y.requires_grad()) end_forward(t.precision);
  return y;
}

inline void backward(Trial& t, const Tensor& y, const Tensor& g) {
  t.optimizer.zero_grad();
  in_pass(t.precision, t.optimizer, [&] { booster::backward(y, {.grad = g}); });
}

inline Tensor bf16(Tensor x) { return untracked::cast(x, DType::bf16); }

// Returns a batch whose size and magnitude change from step to step, like real ones.
inline Tensor batch(int step, int64_t columns) {
  Generator generator(200 + static_cast<uint64_t>(step) + static_cast<uint64_t>(columns));
  const double size = 0.5 + step * 1.7;
  return uniform({3, 5 + step % 2, columns}, -size, size, {}, generator);
}

}  // namespace booster::testing
