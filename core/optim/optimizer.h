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
// Once a Booster has boosted it, the boosted handle does all that concerns gradients: here step,
// zero_grad and clips are errors then (core/autograd/gradient_keeper.h).
//
// Copying an Optimizer copies the handle. One optimizer is for one thread at a time. Its own state
// (momentum, moments) is made at a parameter's first step; a step that is skipped changes neither
// state nor counts, though step() never learns of it: the verdict stays on the device. So do the
// counts of steps and the numbers of the options, in place: a step captured on a GPU is replayed
// with those in force. State may be kept on the host for parameters on a GPU; steps wait then.
//
// Ranks that share the work of one optimizer each have one over all parameters and `own` a range of
// each; together they do what one that owns all does, bit for bit.
#pragma once

#include "core/optim/group_options.h"
#include "core/optim/update_rule.h"
#include "core/tensor/device_number.h"
#include "core/tensor/element_range.h"
#include "core/tensor/named_tensor.h"

#include <functional>
#include <initializer_list>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace booster {

using kernels::UpdateRounding;

// Parameters that share options; `options` lists only what differs from the optimizer's own.
struct ParameterGroup {
  Parameters parameters;
  GroupOptions options = {};
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

// Norms of what ranks hold parts of. Both functions are called by the optimizer that has them, so
// they must not hold its handle. All ranks must call step and clip_grad_by_norm alike.
struct NormSharing {
  // The norm of all gradients of all ranks, each number counted once: f64, no dimensions, fresh
  // memory on the optimizer's device. Absent: that of gradients().
  std::function<Tensor(double power)> gradient_norm = {};
  // Given sums over the elements owned here, makes them the sums over all ranks, in place: squares
  // (f64) holds for each of `parameters` that of its value's squares and that of its update's.
  // Called in every step of a rule that needs them (LAMB), though there be no parameter with a
  // gradient here. Absent: the sums stay as they are.
  std::function<void(const Tensor& squares, const Parameters& parameters)> add_squares = {};
};

// A parameter that an optimizer owns in part.
struct OwnedPart {
  Shape shape;  // of the whole parameter
  ElementRange range;
};

// Everything that a run needs to go on bit for bit. Tensors are called PARAMETER.STATE
// ("head.weight.exp_avg", "head.weight.master", with a ParameterAverage "head.weight.average") and
// share memory with the optimizer. They have the parameter's shape, or one dimension where it is
// owned in part: see `parts`.
struct OptimizerState {
  struct Group {
    OptimizerOptions options;
    int64_t step = 0;                          // LAMB's count; 0 elsewhere
    OptimizerOptions constructed = {};         // the options that the program gave
    std::vector<std::string> parameters = {};  // by name; empty: not known (older checkpoints)
  };
  std::string rule;  // "adamw"
  std::map<std::string, Tensor> tensors;
  std::map<std::string, int64_t> steps;  // each parameter's own count
  std::vector<Group> groups;
  std::map<std::string, OwnedPart> parts = {};  // by parameter; absent: owned whole
};

// An option that a program gave another value than the one whose training was saved.
struct ChangedOption {
  int group;
  std::string name;
  double before, now;
};

// A parameter that a program puts into another group than the one whose training was saved.
struct MovedParameter {
  std::string name;
  int before, now;
};

class Optimizer {
 public:
  // Errors: no parameters, a parameter given twice or two of one name, one that is not a dense
  // floating leaf, parameters on several devices, an option out of range.
  Optimizer(std::unique_ptr<UpdateRule> rule, ParameterGroups groups, OptimizerOptions defaults);

  // Updates every parameter that has a gradient. `control` points to values on the device: where
  // *found_inf is not 0 nothing changes at all, neither numbers nor counts.
  void step(const kernels::StepControl& control = {});
  // Calls `closure`, which computes the loss and its gradients (zero_grad, forward, backward) with
  // the tape on, then updates; returns what it returned. All rules call it once. PyTorch's.
  template <class Closure>
  requires std::is_invocable_r_v<Tensor, Closure&> Tensor step(Closure&& closure) {
    return step_after(std::ref(closure));
  }
  // Forgets all gradients.
  void zero_grad();

  // Dense windows on the gradients that the next step uses: of what is owned here, if anything is,
  // of every parameter that has one.
  std::vector<Tensor> gradients() const;
  // Clips the gradients that the next step uses, so that their common p-norm is at most `max_norm`;
  // returns the norm before, which is read when it is looked at. Steps apply the factor: the
  // gradients in memory stay as they are until settle_clip (clip_grad_norm_ in clip.h changes
  // them). Forgotten by zero_grad, and when gradients change after a step. `factor` (f32, one
  // number on the device) is what the step will multiply gradients by as `inverse_scale`: the norm
  // is that of the products.
  DeviceNumber clip_grad_by_norm(double max_norm, double power = 2, const Tensor& factor = {});
  // The p-norm of all gradients times `factor`: f64, no dimensions. With share_norms it is that of
  // all ranks, which must all ask.
  Tensor gradient_norm(double power = 2, const Tensor& factor = {}) const;
  // The norm that clip_grad_by_norm found, f64 on the device, while the gradients are still those;
  // else undefined. Where it is finite every gradient is: no need to look at them again.
  Tensor clipped_norm() const;
  // The factor that a step now would apply, f64 on the device; undefined: none.
  Tensor pending_clip() const;
  // Multiplies the factor of the last clip by norm into the gradients in memory now: before a
  // backward pass adds others to them.
  void settle_clip();
  // Other gradients come: also where this rank has none, which cannot see it from them.
  void forget_clipped_norm();
  // Clamps every gradient to [-limit, limit], in memory.
  void clip_grad_by_value(double limit);
  // From now on norms are those of all ranks.
  void share_norms(NormSharing sharing);
  bool shares_norms() const;

  // --- parameters
  const char* name() const;
  Device device() const;
  Parameters parameters() const;
  // Those that have a gradient now.
  Parameters parameters_with_grad() const;
  // Adds parameters, now or between any two calls; a pending clip is applied first, since it is of
  // the others. All or nothing: after an error, of on_new_group too, there is no such group.
  void add_group(const ParameterGroup& group);
  // Calls `joined` with the parameters of every group that add_group adds from now on, before they
  // get masters: what cuts, rounds or guards an optimizer's parameters does so to new ones too. It
  // must not hold this handle: the optimizer keeps it.
  using GroupListener = std::function<void(Optimizer& optimizer, const Parameters& added)>;
  void on_new_group(GroupListener joined);

  // --- options
  int group_count() const;
  const OptimizerOptions& options(int group = 0) const;
  // Errors: no such option, or out of range.
  void set_option(int group, const std::string& option, double value);
  // All of a group's at once. Errors: one is missing or unknown, or out of range.
  void set_options(int group, OptimizerOptions options);
  double lr(int group = 0) const { return options(group).at("lr"); }
  void set_lr(double lr);  // of all groups

  // --- ranges
  // From now on steps read and update only these elements of the parameter; the rest of its
  // gradient may be anything. What is kept for it (state, master, compensation) is a tensor of one
  // dimension over the range; what was kept for more is narrowed and its memory given back. Rules
  // that go by norms of whole parameters want share_norms too. A step counts where the parameter
  // has a gradient here, though nothing of it be owned. Until this is called it is owned whole.
  // Errors: no such parameter; a range outside of it, or of what the optimizer keeps numbers for.
  void own(const std::string& parameter, ElementRange range);

  // --- offloading
  // From now on what is kept for parameters (state, masters, compensations, averages, counts) lies
  // on this device, and steps run there, by its kernels: a step copies what is owned of gradients,
  // and of parameters without a master, there, and the new numbers back, for which it waits for the
  // parameters' device. Norms and clips stay there. Error unless it is the CPU or the parameters'
  // own.
  void keep_state_on(Device device);

  // --- masters
  // From now on steps update `master` and rewrite the 16-bit parameter from it in the same pass.
  // It is f32, of the parameter's shape (where the parameter is owned in part a copy is kept, of
  // that part) or, with one dimension, of the range that is owned; on the parameter's device, or
  // where state is kept (else a copy is kept there). A master is saved with the
  // optimizer's state; a parameter that is changed otherwise (weights loaded into the model)
  // becomes its master's value at the next step, unless its master is set again. Errors: no such
  // parameter, shapes or dtypes that do not fit.
  void set_master(const std::string& parameter, Tensor master);
  // Gives every 16-bit parameter that has none a master with its present numbers, now and when a
  // group is added; those with a rounding of their own (below) excepted.
  void make_masters();
  // After ranks exchanged parameters or masters behind a step: a master that was written since then
  // is written to its parameter; a parameter that was written (gathered from other ranks) is taken
  // to be what its master stands for, and the master stays.
  void settle_masters();
  // Undefined where the parameter has none.
  Tensor master(const std::string& parameter) const;
  // What steps update: parameters(), each replaced by its master where it has one (of one dimension
  // where the parameter is owned in part).
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
  // Parameters that `saved` has in another group than this optimizer: the groups of this one count
  // from now on, in `saved` too, and each parameter trains with the options of its new group. Its
  // own state follows it by name.
  std::vector<MovedParameter> adopt_moved_parameters(OptimizerState& saved) const;
  // Options of `saved` that were constructed otherwise than this optimizer's become this one's, and
  // are returned: what a program changed before it resumes counts, what a schedule moved or
  // set_option set since stays as saved. Errors: another number of groups; an option under which
  // other state is kept than was saved.
  std::vector<ChangedOption> adopt_changed_options(OptimizerState& saved) const;
  // Copies state in. A tensor may be of the whole parameter or of any range that holds the one
  // owned here (by `parts`; without an entry there: of just that). All or nothing: an error names
  // the parameter or option that does not fit, or the parameter that was saved in another group,
  // and leaves the optimizer as it was.
  void load_state_dict(const OptimizerState& state);
  // The same in two halves. Everything is checked now; calling the result puts the state in force
  // and cannot fail. Tensors are taken over, not copied: nobody else may write to them.
  std::function<void()> prepare_load(const OptimizerState& state);

  // True if both handles stand for one optimizer.
  friend bool operator==(const Optimizer& a, const Optimizer& b) { return a.body_ == b.body_; }

  struct Body;

 private:
  friend class ParameterAverage;
  friend class AveragedWeights;
  Tensor step_after(const std::function<Tensor()>& closure);

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
