// Optimizer: the handle that a training loop holds. It knows its parameters by name, in groups with
// options of their own, and updates all of them in one pass over memory.
//
//   auto optimizer = SGD(model.parameters(), {.lr = 1e-2, .weight_decay = 0.1});
//   auto grouped = AdamW({{body.parameters()}, {head.parameters(), {{"lr", 1e-2}}}}, {.lr = 1e-3});
//   optimizer.zero_grad();
//   loss.backward();
//   optimizer.clip_grad_by_norm(1.0);
//   optimizer.step();
//
// Copying an Optimizer copies the handle. One optimizer is for one thread at a time. Its own state
// (momentum, moments) is made at a parameter's first step; a step that is skipped changes neither
// state nor counts, though step() never learns of it: the verdict stays on the device.
#pragma once

#include "core/optim/update_rule.h"
#include "core/tensor/named_tensor.h"

#include <initializer_list>
#include <memory>
#include <utility>
#include <vector>

namespace booster {

using kernels::UpdateRounding;

// Parameters that share options; `options` lists only what differs from the optimizer's own.
struct ParameterGroup {
  Parameters parameters;
  Options options = {};
};

// What an optimizer updates: a model's parameters, plain tensors (named "0", "1", ...) or groups.
class ParameterGroups {
 public:
  ParameterGroups(Parameters parameters);
  ParameterGroups(const std::vector<Tensor>& tensors);
  ParameterGroups(std::vector<ParameterGroup> groups) : groups_(std::move(groups)) {}
  ParameterGroups(std::initializer_list<Tensor> tensors)
      : ParameterGroups(std::vector<Tensor>(tensors)) {}
  ParameterGroups(std::initializer_list<ParameterGroup> groups) : groups_(groups) {}
  const std::vector<ParameterGroup>& list() const { return groups_; }

 private:
  std::vector<ParameterGroup> groups_;
};

// Everything that a run needs to go on bit for bit. Tensors are called PARAMETER.STATE
// ("head.weight.exp_avg", "head.weight.master") and share memory with the optimizer.
struct OptimizerState {
  struct Group {
    Options options;
    int64_t step = 0;  // LAMB's count; 0 elsewhere
  };
  std::string rule;  // "adamw"
  std::map<std::string, Tensor> tensors;
  std::map<std::string, int64_t> steps;  // each parameter's own count
  std::vector<Group> groups;
};

class Optimizer {
 public:
  // Errors: no parameters, a parameter given twice or two of one name, one that is not a dense
  // floating leaf, parameters on several devices, an option out of range.
  Optimizer(std::unique_ptr<UpdateRule> rule, ParameterGroups groups, Options defaults);

  // Updates every parameter that has a gradient. `control` points to values on the device: where
  // *found_inf is not 0 nothing changes at all, neither numbers nor counts.
  void step(const kernels::StepControl& control = {});
  // Forgets all gradients.
  void zero_grad();

  // Clips the gradients that the next step uses, so that their common p-norm is at most `max_norm`;
  // returns the norm before. The step applies the factor: the gradients in memory stay as they are
  // (clip_grad_norm_ in clip.h changes them). Forgotten by step and by zero_grad. `factor` (f32,
  // one number on the device) is what the step will multiply gradients by as `inverse_scale`: the
  // norm is that of the products.
  double clip_grad_by_norm(double max_norm, double power = 2, const Tensor& factor = {});
  // The norm that clip_grad_by_norm found, f64 on the device, while the gradients are still those;
  // else undefined. Where it is finite every gradient is: no need to look at them again.
  Tensor clipped_norm() const;
  // Multiplies the pending factor into the gradients in memory: before more is added to them.
  void settle_clip();
  // Clamps every gradient to [-limit, limit], in memory.
  void clip_grad_by_value(double limit);

  // --- parameters
  const char* name() const;
  Device device() const;
  Parameters parameters() const;
  // The gradients that the next step uses.
  std::vector<Tensor> gradients() const;
  // Those that have a gradient now.
  Parameters parameters_with_grad() const;
  void add_group(const ParameterGroup& group);

  // --- options
  int group_count() const;
  const Options& options(int group = 0) const;
  // Errors: no such option, or out of range.
  void set_option(int group, const std::string& option, double value);
  double lr(int group = 0) const { return options(group).at("lr"); }
  void set_lr(double lr);  // of all groups

  // --- masters
  // From now on steps update `master` (f32, same shape) and rewrite the 16-bit parameter from it in
  // the same pass. A master is saved with the optimizer's state; a parameter that is changed
  // otherwise (weights loaded into the model) becomes its master's value at the next step. Errors:
  // no such parameter, shapes or dtypes that do not fit.
  void set_master(const std::string& parameter, Tensor master);
  // Gives every 16-bit parameter that has none a master with its present numbers, now and when a
  // group is added; those with a rounding of their own (below) excepted.
  void make_masters();
  // Undefined where the parameter has none.
  Tensor master(const std::string& parameter) const;
  // What steps update: parameters(), each replaced by its master where it has one.
  Parameters master_parameters() const;

  // --- 16-bit parameters without masters
  // How steps from now on store the new value of a bf16 parameter, which they compute in f32. The
  // noise of `stochastic` is a function of `seed`, the parameter's place in the optimizer, its step
  // and the element, so ranks that update the same numbers keep the same bits; the compensation of
  // `kahan` is bf16 and saved with the optimizer's state. Errors: no such parameter, one that is
  // not bf16 or has a master.
  void set_rounding(const std::string& parameter, UpdateRounding rounding, uint32_t seed = 0);

  // --- state
  OptimizerState state_dict() const;
  // Copies state in. All or nothing: an error names the parameter or option that does not fit and
  // leaves the optimizer as it was.
  void load_state_dict(const OptimizerState& state);

  // True if both handles stand for one optimizer.
  friend bool operator==(const Optimizer& a, const Optimizer& b) { return a.body_ == b.body_; }

  struct Body;

 private:
  std::shared_ptr<Body> body_;
};

// Optimizers that train together; one alone counts.
class Optimizers : public std::vector<Optimizer> {
 public:
  Optimizers() = default;
  Optimizers(const Optimizer& only) : vector{only} {}
  Optimizers(std::vector<Optimizer> all) : vector(std::move(all)) {}
};

}  // namespace booster
