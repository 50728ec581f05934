// Which gradients f16 would flush to 0 or to infinity at the present loss scale, which updates a
// 16-bit weight would lose to rounding, and with which loss scale to begin. For one thread.
#pragma once

#include "core/optim/optimizer.h"

#include <nlohmann/json.hpp>

#include <map>
#include <string>

namespace booster::numerics {

// Sums over the steps seen, of one parameter; gradients are the true ones.
struct ParameterHealth {
  std::string dtype;  // of the parameter
  bool has_master = false;
  int64_t steps = 0, gradients = 0;
  int64_t zeros = 0;       // exactly 0
  int64_t underflows = 0;  // not 0, but 0 in f16 once multiplied by the loss scale
  int64_t overflows = 0;   // infinite in f16 likewise
  double largest = 0;      // finite magnitude
  int64_t updates = 0;     // elements that a step wanted to change
  int64_t lost_bf16 = 0;   // of these, those that are less than half a unit in the last place
  int64_t lost_f16 = 0;
  int64_t lost = 0;  // those that were in fact lost: of 16-bit parameters without a master

  double share_underflow() const;
  double share_overflow() const;
  double share_lost() const;
};

class GradientHealth {
 public:
  // Gradients as they lie in memory; `scale` (NaN-free, 1: none) is what they are still multiplied
  // by. Remembers the weights.
  void before_step(const Optimizer& optimizer, double scale, double loss_scale);
  // Looks at what the step changed. Not after a step that was skipped.
  void after_step(const Optimizer& optimizer);

  const std::map<std::string, ParameterHealth>& parameters() const { return parameters_; }
  // The largest power of 2 that leaves every gradient seen a factor 16 of room below 65504, at most
  // 2^24; 0 if none was seen.
  double suggested_scale() const;

  std::string table() const;
  nlohmann::ordered_json to_json() const;

 private:
  std::map<std::string, ParameterHealth> parameters_;
  std::map<std::string, Tensor> before_;  // f32 weights, or masters
};

}  // namespace booster::numerics
