// An exponential moving average of an optimizer's parameters, which often evaluates better than the
// parameters themselves.
//
//   ParameterAverage average(optimizer, {.decay = 0.9998});
//   for (...) { ...; average.update(opt.step(), ++step); }  // no update if the step was skipped
//   { AveragedWeights evaluation(average);  accuracy = evaluate(net); }
//
// average = decay * average + (1 - decay) * value, in f32 (f64 for f64 parameters). It reads the
// parameter's f32 master if there is one, since 16 bits would lose small differences. Boost the
// model first, so that the masters exist.
//
// Averages are part of the optimizer's state (NAME.average) and of checkpoints. They cover this
// rank's part of each parameter. Resuming a checkpoint without them restarts the averages from its
// parameters. An optimizer has one average. Use it on the optimizer's thread.
#pragma once

#include "core/optim/optimizer.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace booster {

// All options except decay have the defaults and meaning of timm's ModelEmaV3.
struct ParameterAverageOptions {
  double decay = 0.999;
  // In step t, counted from 1 after update_after_step, the decay is at most
  // 1 - (1 + t / warmup_gamma)^-warmup_power.
  bool warmup = false;
  double warmup_gamma = 1;
  double warmup_power = 2.0 / 3;
  double min_decay = 0;           // lower bound in the warm-up
  int64_t update_after_step = 0;  // up to this step the average equals the parameters
};

class ParameterAverage {
 public:
  // Starts from the current parameters. Replaces an existing average of the optimizer. Throws for
  // an option out of range.
  explicit ParameterAverage(const Optimizer& optimizer, ParameterAverageOptions options = {});

  // Updates the average. `step` counts the optimizer's steps so far, including this one. Without
  // it, the decay is the option's value.
  void update(std::optional<int64_t> step = {});
  // Does the same, unless the optimizer's step was skipped.
  template <class Report>
  requires requires(const Report& report) { report.skipped(); }
  void update(const Report& report, std::optional<int64_t> step = {}) {
    if (!report.skipped()) update(step);
  }

  // Returns the decay of an update in this step; 0 in the first.
  double decay(std::optional<int64_t> step = {}) const;
  // Returns this rank's owned part of each average, by parameter; shares memory with the optimizer.
  std::map<std::string, Tensor> state_dict() const;
  // Copies all averages in, or none. An error names the parameter that is missing, unknown or of
  // another shape.
  void load_state_dict(const std::map<std::string, Tensor>& state);

 private:
  friend class AveragedWeights;
  Optimizer optimizer_;
  ParameterAverageOptions options_;
};

// Makes the model compute with the averages while it lives, and then restores the parameters bit
// for bit. Do not step meanwhile. If parameters are sharded over ranks, `exchange` sends this
// rank's part to the others. All ranks then construct and destroy it together: see Booster's
// averaged_weights() in booster/training/boosted.h.
class AveragedWeights {
 public:
  explicit AveragedWeights(const ParameterAverage& average, std::function<void()> exchange = {});
  // Restores the parameters. Skips the exchange while an exception unwinds, since other ranks may
  // not take part.
  ~AveragedWeights();
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  void share_written();

  Optimizer optimizer_;
  std::function<void()> exchange_;
  std::vector<Tensor> before_;
  int errors_before_;
};

}  // namespace booster
