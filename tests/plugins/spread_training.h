// Trains a small model spread over ranks and in one process, in a way that touches all that a
// plugin has to keep right: two losses a step, accumulation without exchange, clips by value and
// norm between and after them, a step without zero_grad, overflows of a loss and of one element.
#pragma once

#include "booster/booster.h"
#include "tests/strategy_levels.h"

#include <functional>
#include <string>

namespace booster::testing {

constexpr int64_t batch = 12, features = 32, hidden = 64;

// Three linear layers, "0", "3" and "5", with LayerNorm, GELU and tanh between them.
Model network();

// A way to spread a model, and how the ranks see a batch.
struct Spread {
  std::string name;
  Choice<Plugin> plugin = SinglePlugin({.on_every_rank = true});
  std::function<Model()> model;  // its parameters are drawn
  // What the model gets, and is to give, of rows of numbers between -1 and 1.
  using Rows = std::function<Tensor(const Tensor& numbers)>;
  Rows input = [](const Tensor& numbers) { return numbers; };
  Rows target = [](const Tensor& numbers) { return numbers; };
  int shares = 1, share = 0;  // of each batch, here
  bool by_pipeline = false;
  Device device = {};             // of the model; what it is compared with trains on the CPU
  int breaking_rank = -1;         // has an infinite gradient in one step; the last one
  std::string broken = "5.bias";  // the parameter of that gradient
  Digits sent = Digits::f64;      // of gradients between ranks: f64: all that they have
  double rate = 1;                // of learning
  double deeper = 1;              // than a few layers, for whose rounding in 16 bits tolerances are
};

// How far the two are apart, relative to what training changed.
struct Distance {
  double state = 0, told = 0, part = 0;
  std::string difference;  // "": within the strategy's tolerance
};

double tolerance_of(const StrategyLevel& strategy, Digits sent = Digits::f64);
// Trains by an optimizer ("sgd", "adamw", "lamb") spread, and alone. All ranks call it.
Distance train(const StrategyLevel& strategy, const Spread& spread, const std::string& rule);
// Trains on from a checkpoint, in fresh objects; "" or what is not the same bits.
std::string resume(const StrategyLevel& strategy, const Spread& spread, const std::string& folder);
// Trains on from it on another device, or spread otherwise over the same ranks: with the same bits
// at first, then within the strategy's tolerance; "" or what differs.
std::string resume_elsewhere(const StrategyLevel& strategy, const Spread& spread,
                             const Spread& other, const std::string& folder);

}  // namespace booster::testing
