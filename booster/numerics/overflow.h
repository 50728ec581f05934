// Overflow forensics: where the first number of a step that is not finite came from.
//
// The trace looks at every result in forward order until an op is found whose inputs were finite
// and whose result is not, then at every gradient in backward order likewise. At the end of a step
// that was skipped, or whose loss or gradients are not finite, `explain` says which of them it was
// and what helps. For one thread.
#pragma once

#include "booster/numerics/findings.h"
#include "booster/numerics/statistics.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace booster::numerics {

// An op that made numbers that are not finite.
struct Origin {
  std::string op, place;  // place: module or parameter
  std::string result;     // as describe() says it
  std::string dtype;
  std::vector<double> maxima;  // largest finite magnitude of each input
  bool finite_inputs = true;
  bool nan_inputs = false;
  bool has_nan = false;   // the result has
  bool only_nan = false;  // it has nan, but no inf
};

// What the step knows beside the trace.
struct StepFacts {
  int64_t step = 0;
  double scale = 1;            // of the loss
  bool loss_finite = true;     // before it was scaled
  std::string bad_data;        // what the model was given, if that was not finite
  std::string bad_parameter;   // one that was not finite before the step
  std::string stale_gradient;  // one that was not finite before backward began
  int ranks = 1;               // whose gradients are summed
};

class OverflowTrace {
 public:
  void begin_step();
  void forward(const std::string& op, const std::string& place, std::span<const Tensor> inputs,
               const Tensor& y);
  void backward(const std::string& op, std::span<const Tensor> g, std::span<const Tensor> d);
  void leaf(const std::string& parameter, const Tensor& gradient);

  // The finding of a step that went wrong.
  Finding explain(const StepFacts& facts) const;

 private:
  std::optional<Origin> forward_, backward_;
  std::string parameter_;
  std::string parameter_text_;
};

}  // namespace booster::numerics
