// UpdateRule: the part that differs between optimizers. It has the options, the state for each
// parameter, and the kernel of the formula. Stateless; Optimizer (optimizer.h) owns the parameters,
// their state and the order of a step.
#pragma once

#include "core/optim/optimizer.h"
#include "kernels/arguments/multi_tensor.h"

#include <array>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace booster {

// An option's name and legal range, both ends included unless `below_high`.
struct OptionRange {
  const char* name;
  double low = 0;
  double high = std::numeric_limits<double>::max();
  bool below_high = false;
};

inline constexpr size_t max_states = 4;

// A parameter that takes part in a step, as tensors on the step's device. `value` has the
// parameter's shape.
struct StepTensors {
  Tensor value, grad;
  std::array<Tensor, max_states> state = {};
  Tensor steps = {};  // i64: steps taken before this one
};

// The arguments of a rule's kernels for one group's parameters. Pointers are to device memory.
struct GroupStep {
  Device device;
  const OptimizerOptions& options;
  kernels::OptimizerSlots slots = {};
  const kernels::StepNumbers* numbers = nullptr;  // of `options`
  kernels::StepControl control = {};
  const double* grad_norm = nullptr;      // of all gradients, if max_grad_norm is not 0
  double* squares = nullptr;              // two numbers per slot, if the rule sums_squares
  std::vector<StepTensors> tensors = {};  // of the slots, if the rule needs whole parameters
};

// A state tensor of a parameter. A first size of -1 stands for any.
struct RuleState {
  std::string name;
  Shape shape;
};

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  // Returns the rule's name, such as "sgd" or "adamw", which starts every message and marks saved
  // state.
  virtual const char* name() const = 0;
  virtual std::vector<OptionRange> options() const = 0;
  // Checks options against each other; errors name both.
  virtual void check_together(const OptimizerOptions&) const {}
  // Returns the names of a parameter's state tensors under these options; at most max_states.
  virtual std::vector<std::string> state_names(const OptimizerOptions& options) const = 0;
  // Returns the state of a parameter of this shape. Shapes differ from the parameter's only if the
  // rule needs whole parameters.
  virtual std::vector<RuleState> states(const OptimizerOptions& options,
                                        const Shape& parameter) const;
  // Returns true if the rule computes with whole parameters, so that ranks must not share one.
  virtual bool needs_whole_parameters() const { return false; }
  // Throws for a parameter that the rule cannot update with these options.
  virtual void check_parameter(const NamedTensor&, const OptimizerOptions&) const {}
  // Returns true if a step is minimize(), which calls the closure several times.
  virtual bool minimizes() const { return false; }
  // Runs step(closure) of a rule that minimizes.
  virtual Tensor minimize(Optimizer::Body&, const std::function<Tensor()>&) const { return {}; }
  // Returns true if all parameters of a group share the group's count of steps.
  virtual bool counts_by_group() const { return false; }
  // Returns the limit to which the rule itself clips the global gradient norm; 0: it does not clip.
  virtual double max_grad_norm(const OptimizerOptions&) const { return 0; }
  // Returns the options in the form that the rule's kernels read.
  virtual kernels::StepNumbers numbers(const OptimizerOptions& options) const = 0;
  // Returns true if the rule's step needs sums of squares over whole parameters, which prepare_step
  // writes to GroupStep::squares.
  virtual bool sums_squares() const { return false; }
  // Run the rule's kernels for a group, prepare_step first.
  virtual void prepare_step(const GroupStep&) const {}
  virtual void step(const GroupStep& group) const = 0;
};

// Checks every option's name and range, and options against each other.
void check_options(const UpdateRule& rule, const OptimizerOptions& options);

// Returns `defaults` with the values of `changes`. Throws for an unknown name, with the legal ones.
OptimizerOptions merged(const UpdateRule& rule, OptimizerOptions defaults,
                        const OptimizerOptions& changes);

}  // namespace booster
