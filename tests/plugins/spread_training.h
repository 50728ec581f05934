// Trains a small model both distributed and in one process. Covers everything that a plugin must
// keep right: two losses per step, accumulation without communication, clips by value and norm
// between and after them, a step without zero_grad, and overflows of a loss and of one element.
#pragma once

#include "booster/booster.h"
#include "tests/strategy_levels.h"

#include <functional>
#include <string>

namespace booster::testing {

constexpr int64_t batch = 12, features = 32, hidden = 64;

// Returns three linear layers, "0", "3" and "5", with LayerNorm, GELU and tanh between them.
Model network();

// A way to distribute a model, and how the ranks see a batch.
struct Spread {
  std::string name;
  Choice<Plugin> plugin = SinglePlugin({.on_every_rank = true});
  std::function<Model()> model;  // its parameters are random
  // Maps rows of values between -1 and 1 to the model's input and target.
  using Rows = std::function<Tensors(const Tensor& numbers)>;
  Rows input = [](const Tensor& numbers) { return numbers; };
  Rows target = [](const Tensor& numbers) { return numbers; };
  int shares = 1, share = 0;  // of each batch; this rank's share
  bool by_pipeline = false;
  Device device = {};             // of the model; its reference trains on the CPU
  int breaking_rank = -1;         // rank with an infinite gradient in one step; the last one
  std::string broken = "5.bias";  // the parameter of that gradient
  Digits sent = Digits::f64;      // precision of gradients between ranks; f64: full
  double rate = 1;                // learning rate
  double deeper = 1;              // depth relative to the few layers that 16-bit tolerances assume
};

// The distance between the two trainings, relative to what training changed.
struct Distance {
  double state = 0, told = 0, part = 0;
  std::string difference;  // "": within the strategy's tolerance
};

double tolerance_of(const StrategyLevel& strategy, Digits sent = Digits::f64);
// Trains with an optimizer ("sgd", "adamw", "lamb") distributed and alone. Collective.
Distance train(const StrategyLevel& strategy, const Spread& spread, const std::string& rule);
// Resumes from a checkpoint in fresh objects; returns "" or what is not bitwise equal.
std::string resume(const StrategyLevel& strategy, const Spread& spread, const std::string& folder);
// Resumes it on another device, or in another layout on the same ranks. The state must be bitwise
// equal at first, then within the strategy's tolerance; returns "" or what differs.
std::string resume_elsewhere(const StrategyLevel& strategy, const Spread& spread,
                             const Spread& other, const std::string& folder);

}  // namespace booster::testing
