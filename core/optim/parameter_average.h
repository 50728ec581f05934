// An exponential moving average of an optimizer's parameters, which often evaluates better than the
// parameters themselves.
//
//   ParameterAverage average(optimizer, 0.999);
//   for (...) { ...; average.update(opt.step()); }     // nothing moves where the step was skipped
//   { AveragedWeights evaluation(average);  accuracy = evaluate(net); }
//
// average = decay * average + (1 - decay) * value, in f32 (f64 for f64 parameters) and from the f32
// master where a parameter has one: 16 bits would lose every small difference. Boost the model
// first, so that the masters exist; where several ranks own a master's parts that is an error, for
// none has the whole. For the optimizer's thread.
#pragma once

#include "core/optim/optimizer.h"

#include <map>
#include <string>
#include <vector>

namespace booster {

class ParameterAverage {
 public:
  // Starts from the parameters as they are. Error unless 0 <= decay <= 1.
  explicit ParameterAverage(const Optimizer& optimizer, double decay = 0.999);

  void update();
  // The same, unless the optimizer's step was skipped.
  template <class Report>
  requires requires(const Report& report) { report.skipped(); }
  void update(const Report& report) {
    if (!report.skipped()) update();
  }

  double decay() const { return decay_; }
  // By parameter; sharing memory with this object.
  std::map<std::string, Tensor> state_dict() const;
  // Copies numbers in. All or nothing: an error names the parameter that is missing, unknown or of
  // another shape.
  void load_state_dict(const std::map<std::string, Tensor>& state);

 private:
  friend class AveragedWeights;
  struct Entry {
    std::string name;
    Tensor parameter, average;
  };

  Optimizer optimizer_;
  double decay_;
  std::vector<Entry> entries_;
};

// While it lives, the model computes with the averages; then its parameters are what they were, bit
// for bit. Do not step meanwhile.
class AveragedWeights {
 public:
  explicit AveragedWeights(ParameterAverage& average);
  ~AveragedWeights();
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  ParameterAverage& average_;
  std::vector<Tensor> before_;
};

}  // namespace booster
