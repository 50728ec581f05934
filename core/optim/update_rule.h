// What differs from one optimizer to the next: which options it has, which state it keeps beside a
// parameter, and the kernel that applies its formula. Stateless; Optimizer (optimizer.h) owns the
// parameters, their state and the order of a step.
#pragma once

#include "kernels/catalogue.h"

#include <limits>
#include <map>
#include <string>
#include <vector>

namespace booster {

// Options of a parameter group by name ("lr", "beta1", ...); flags are 0 or 1.
using OptimizerOptions = std::map<std::string, double>;

// An option's name and legal range, both ends included unless `below_high`.
struct OptionRange {
  const char* name;
  double low = 0;
  double high = std::numeric_limits<double>::max();
  bool below_high = false;
};

// What a rule's kernels are given for the parameters of a group. Pointers are to the device.
struct GroupStep {
  Device device;
  const OptimizerOptions& options;
  kernels::OptimizerSlots slots = {};
  const kernels::StepNumbers* numbers = nullptr;  // those of `options`
  kernels::StepControl control = {};
  const double* grad_norm = nullptr;  // of all gradients, where max_grad_norm is not 0
  double* squares = nullptr;          // two numbers for each slot, where the rule sums_squares
};

inline constexpr size_t max_states = 3;

class UpdateRule {
 public:
  virtual ~UpdateRule() = default;
  // "sgd", "adamw": begins every message and marks saved state.
  virtual const char* name() const = 0;
  virtual std::vector<OptionRange> options() const = 0;
  // Rules between options; errors name both.
  virtual void check_together(const OptimizerOptions&) const {}
  // Names of the state tensors that a parameter needs under these options; at most max_states.
  virtual std::vector<std::string> state_names(const OptimizerOptions& options) const = 0;
  // True if all parameters of a group share the group's count of steps.
  virtual bool counts_by_group() const { return false; }
  // The global gradient norm that the rule clips to by itself; 0: it does not.
  virtual double max_grad_norm(const OptimizerOptions&) const { return 0; }
  // Options as the rule's kernels read them.
  virtual kernels::StepNumbers numbers(const OptimizerOptions& options) const = 0;
  // True if the rule's step needs sums of squares over whole parameters , which
  // prepare_step writes to GroupStep::squares.
  virtual bool sums_squares() const { return false; }
  // The kernels' work: both in turn for a group.
  virtual void prepare_step(const GroupStep&) const {}
  virtual void step(const GroupStep& group) const = 0;
};

// Checks every option's name and range and what must hold between them.
void check_options(const UpdateRule& rule, const OptimizerOptions& options);

// `defaults` with the values of `changes`; an error lists the legal names if one is unknown.
OptimizerOptions merged(const UpdateRule& rule, OptimizerOptions defaults,
                        const OptimizerOptions& changes);

}  // namespace booster
