// Overflow forensics: where the first non-finite value of a step came from.
//
// The trace examines results in forward order until it finds an op with finite inputs and a
// non-finite result. Then it examines gradients in backward order in the same way. At the end of a
// step that was skipped, or whose loss or gradients are not finite, `explain` reports the cause and
// a remedy. For one thread.
#pragma once

#include "booster/numerics/findings.h"
#include "core/tensor/checks/statistics.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace booster::numerics {

// An op that produced non-finite values.
struct Origin {
  std::string op, place;  // place: module or parameter
  std::string result;     // as formatted by describe()
  std::string dtype;
  std::vector<double> maxima;  // largest finite magnitude of each input
  bool finite_inputs = true;
  bool nan_inputs = false;
  bool has_nan = false;   // the result contains nan
  bool only_nan = false;  // the result contains nan but no inf
};

// Facts about the step in addition to the trace.
struct StepFacts {
  int64_t step = 0;
  double scale = 1;            // of the loss
  bool loss_finite = true;     // before it was scaled
  std::string bad_data;        // the model's input, if it was not finite
  std::string bad_parameter;   // a parameter that was not finite before the step
  std::string stale_gradient;  // a gradient that was not finite before backward began
  int ranks = 1;               // the ranks whose gradients are summed
};

class OverflowTrace {
 public:
  void begin_step();
  void forward(const std::string& op, const std::string& place, std::span<const Tensor> inputs,
               const Tensor& y);
  void backward(const std::string& op, std::span<const Tensor> g, std::span<const Tensor> d);
  void leaf(const std::string& parameter, const Tensor& gradient);

  // Returns the finding for a step that went wrong.
  Finding explain(const StepFacts& facts) const;

 private:
  std::optional<Origin> forward_, backward_;
  std::string parameter_;
  std::string parameter_text_;
};

}  // namespace booster::numerics
