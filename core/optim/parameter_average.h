// An exponential moving average of an optimizer's parameters, which often evaluates better than the
// parameters themselves.
//
//   ParameterAverage average(optimizer, {.decay = 0.9998});
//   for (...) { ...; average.update(opt.step(), ++step); }  // nothing moves where it was skipped
//   { AveragedWeights evaluation(average);  accuracy = evaluate(net); }
//
// average = decay * average + (1 - decay) * value, in f32 (f64 for f64 parameters) and from the f32
// master where a parameter has one: 16 bits would lose every small difference. Boost the model
// first, so that the masters exist.
//
// Averages are a part of the optimizer's state (NAME.average): they cover what this rank owns of
// each parameter, and checkpoints have them. One that was saved without them begins anew from its
// parameters. An optimizer has one average. For the optimizer's thread.
#pragma once

#include "core/optim/optimizer.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace booster {

// Defaults and the meaning of all but decay are those of timm's ModelEmaV3.
struct ParameterAverageOptions {
  double decay = 0.999;
  // In step t, counted from 1 behind update_after_step, the decay is at most
  // 1 - (1 + t / warmup_gamma)^-warmup_power.
  bool warmup = false;
  double warmup_gamma = 1;
  double warmup_power = 2.0 / 3;
  double min_decay = 0;           // of the warm-up
  int64_t update_after_step = 0;  // until then the average is the parameters
};

class ParameterAverage {
 public:
  // Starts from the parameters as they are, in place of an average that the optimizer has. Error
  // for an option out of range.
  explicit ParameterAverage(const Optimizer& optimizer, ParameterAverageOptions options = {});

  // `step`: optimizer steps so far, this one included. Without it the decay is the option's.
  void update(std::optional<int64_t> step = {});
  // The same, unless the optimizer's step was skipped.
  template <class Report>
  requires requires(const Report& report) { report.skipped(); }
  void update(const Report& report, std::optional<int64_t> step = {}) {
    if (!report.skipped()) update(step);
  }

  // Of an update in this step: 0 in the first.
  double decay(std::optional<int64_t> step = {}) const;
  // By parameter, what this rank owns of it; sharing memory with the optimizer.
  std::map<std::string, Tensor> state_dict() const;
  // Copies numbers in. All or nothing: an error names the parameter that is missing, unknown or of
  // another shape.
  void load_state_dict(const std::map<std::string, Tensor>& state);

 private:
  friend class AveragedWeights;
  Optimizer optimizer_;
  ParameterAverageOptions options_;
};

// While it lives, the model computes with the averages; then its parameters are what they were, bit
// for bit. Do not step meanwhile. Where ranks own parts of parameters, `exchange` sends what this
// one wrote to the others, and all ranks make and end it together: Booster's averaged_weights() in
// booster/training/boosted.h.
class AveragedWeights {
 public:
  explicit AveragedWeights(const ParameterAverage& average, std::function<void()> exchange = {});
  // Without the exchange if an error is on its way: the other ranks may be elsewhere.
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
