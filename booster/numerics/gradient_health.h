// Measures which gradients f16 would flush to 0 or to infinity at the current loss scale. Also
// measures which updates a 16-bit weight would lose to rounding, and a suitable initial loss scale.
// For one thread.
#pragma once

#include "core/optim/optimizer.h"

#include <nlohmann/json.hpp>

#include <map>
#include <string>

namespace booster::numerics {

// Sums for one parameter over the diagnosed steps; gradients are the true (unscaled) ones.
struct ParameterHealth {
  std::string dtype;  // of the parameter
  bool has_master = false;
  int64_t steps = 0, gradients = 0;
  int64_t zeros = 0;       // exactly 0
  int64_t underflows = 0;  // not 0, but 0 in f16 once multiplied by the loss scale
  int64_t overflows = 0;   // infinite in f16 once multiplied by the loss scale
  double largest = 0;      // largest finite magnitude
  int64_t updates = 0;     // elements that a step should have changed
  int64_t lost_bf16 = 0;   // of these, those below half a unit in the last place
  int64_t lost_f16 = 0;
  int64_t lost = 0;  // those actually lost: in 16-bit parameters without a master

  double share_underflow() const;
  double share_overflow() const;
  double share_lost() const;
};

class GradientHealth {
 public:
  // Examines gradients as they are in memory and remembers the weights. `scale` is the factor that
  // the gradients still contain (1: none; not NaN).
  void before_step(const Optimizer& optimizer, double scale, double loss_scale);
  // Examines the step's changes. Must not be called after a skipped step.
  void after_step(const Optimizer& optimizer);

  const std::map<std::string, ParameterHealth>& parameters() const { return parameters_; }
  // Returns the largest power of 2, at most 2^24, that keeps all observed gradients at most 65504 /
  // 16; 0 if none was observed.
  double suggested_scale() const;

  std::string table() const;
  nlohmann::ordered_json to_json() const;

 private:
  std::map<std::string, ParameterHealth> parameters_;
  std::map<std::string, std::vector<double>> before_;  // the weights or masters that this rank owns
};

}  // namespace booster::numerics
