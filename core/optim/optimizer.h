// Optimizer: the handle that a training loop holds. It knows its parameters by name, in groups with
// their own options, and updates all of them in one pass over memory.
//
//   auto optimizer = SGD(model.parameters(), {.lr = 1e-2, .weight_decay = 0.1});
//   auto grouped = AdamW({{body.parameters()}, {head.parameters(), {{"lr", 1e-2}}}}, {.lr = 1e-3});
//   optimizer.zero_grad();
//   loss.backward();
//   optimizer.clip_grad_by_norm(1.0);
//   optimizer.step();
//
// Once a Booster has boosted it, use the boosted handle for all work on gradients. Calling step,
// zero_grad or clips here then throws (core/autograd/gradient_keeper.h).
//
// Copying an Optimizer copies the handle. One optimizer is for one thread at a time. Its state
// (momentum, moments) is created at a parameter's first step. A skipped step changes neither state
// nor counts, although the skip flag stays on the device and step() never reads it. Step counts and
// option values also stay on the device and change in place, so a replay of a captured step uses
// the current ones. For parameters on a GPU, the host may keep the state; steps then wait for the
// GPU.
//
// Ranks that share the work of one optimizer each have an optimizer of all parameters, and `own` a
// range of each. Together they give the same bits as one optimizer that owns everything.
#pragma once

#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace booster {

class UpdateRule;  // core/optim/update_rule.h

// kernels/arguments/multi_tensor.h
namespace kernels {
struct StepControl;
enum class UpdateRounding : uint8_t;
}  // namespace kernels
using kernels::UpdateRounding;

// Options of a parameter group by name ("lr", "beta1", ...); flags are 0 or 1.
using OptimizerOptions = std::map<std::string, double>;

// The options of a parameter group, under the names of the options structs. Where a struct takes a
// pair (betas of Adam, AdamW, LAMB), so does a group.
//
//   AdamW({{body.parameters()}, {head.parameters(), {{"lr", 1e-2}, {"betas", {0.9, 0.95}}}}})
//
// The optimizer keeps each number under its own name: "betas" becomes "beta1" and "beta2". A group
// accepts those names too.
class GroupOptions {
 public:
  // A number, a flag, or a pair.
  class Value {
   public:
    Value(double one) : numbers_{one} {}
    Value(double first, double second) : numbers_{first, second} {}
    Value(std::pair<double, double> two) : numbers_{two.first, two.second} {}
    const std::vector<double>& numbers() const { return numbers_; }

   private:
    std::vector<double> numbers_;
  };
  struct Named {
    std::string name;
    Value value;
  };

  GroupOptions() = default;
  GroupOptions(OptimizerOptions numbers) : numbers_(std::move(numbers)) {}
  // Throws if an option occurs twice, if betas are not two, or if another option has two numbers.
  GroupOptions(std::initializer_list<Named> options);
  // Returns the options under the optimizer's own names.
  const OptimizerOptions& numbers() const { return numbers_; }

 private:
  void add(const std::string& name, double number);
  OptimizerOptions numbers_;
};

// Parameters that share options; `options` lists only those that differ from the optimizer's own.
struct ParameterGroup {
  Parameters parameters;
  GroupOptions options = {};
};

// Targets of an optimizer: a model's parameters, plain tensors (named "0", "1", ...), or groups.
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

// Norms of tensors whose parts are on several ranks. The optimizer that stores these functions
// calls them, so they must not hold its handle. All ranks must make the same calls of step and
// clip_grad_by_norm.
struct NormSharing {
  // Returns the norm of all gradients of all ranks, counting each element once: f64, no dimensions,
  // in new memory on the optimizer's device. If absent, the optimizer uses the norm of gradients().
  std::function<Tensor(double power)> gradient_norm = {};
  // Turns sums over this rank's elements into sums over all ranks, in place. For each of
  // `parameters`, squares (f64) holds the sums of squares of its value and of its update. Called in
  // every step of a rule that needs them (LAMB), even if no parameter on this rank has a gradient.
  // If absent, the sums stay unchanged.
  std::function<void(const Tensor& squares, const Parameters& parameters)> add_squares = {};
};

// The part of a parameter that an optimizer owns.
struct OwnedPart {
  Shape shape;  // of the whole parameter
  ElementRange range;
};

// The state for resuming a run with the same bits. Tensors are named PARAMETER.STATE
// ("head.weight.exp_avg", "head.weight.master", with a ParameterAverage "head.weight.average") and
// share memory with the optimizer. They have the parameter's shape, or one dimension if the
// optimizer owns a part (see `parts`).
struct OptimizerState {
  struct Group {
    OptimizerOptions options;
    int64_t step = 0;                          // LAMB's count; 0 elsewhere
    OptimizerOptions constructed = {};         // the options that the program gave
    std::vector<std::string> parameters = {};  // names; empty: unknown (older checkpoints)
  };
  std::string rule;  // "adamw"
  std::map<std::string, Tensor> tensors;
  std::map<std::string, int64_t> steps;  // each parameter's own count
  std::vector<Group> groups;
  std::map<std::string, OwnedPart> parts = {};  // by parameter; absent: owned whole
};

// An option whose value in the program differs from the saved training's.
struct ChangedOption {
  int group;
  std::string name;
  double before, now;
};

// A parameter whose group in the program differs from the saved training's.
struct MovedParameter {
  std::string name;
  int before, now;
};

class Optimizer {
 public:
  // Makes an optimizer. Throws for an empty list, a repeated parameter or name, a parameter that is
  // not a dense floating leaf, parameters on several devices, and an option out of range.
  Optimizer(std::unique_ptr<UpdateRule> rule, ParameterGroups groups, OptimizerOptions defaults);

  // Updates every parameter that has a gradient.
  void step();
  // As above with values on the device, one f32 each; undefined: absent. Where found_inf is not 0,
  // nothing changes, neither values nor counts. Gradients are multiplied by inverse_scale first.
  void step(const Tensor& found_inf, const Tensor& inverse_scale = {});
  void step(const kernels::StepControl& control);  // the same by pointers
  // Calls `closure`, which computes the loss and its gradients (zero_grad, forward, backward) with
  // the tape on, then updates, as in PyTorch. Returns the closure's first result. LBFGS calls it
  // several times, all other rules once.
  template <class Closure>
  requires std::is_invocable_r_v<Tensor, Closure&> Tensor step(Closure&& closure) {
    return step_after(std::ref(closure));
  }
  // Drops all gradients.
  void zero_grad();

  // Returns dense windows on the gradients that the next step uses: the owned elements of every
  // parameter with a gradient, if there are any.
  std::vector<Tensor> gradients() const;
  // Clips the gradients of the next step so that their common p-norm is at most `max_norm`. Returns
  // the norm before clipping, which stays on the device until it is read. Steps apply the factor;
  // gradients in memory stay unchanged until settle_clip (clip_grad_norm_ below changes them).
  // zero_grad drops the clip, and so does a change of gradients after a step. `factor` (f32, one
  // value on the device) is the step's `inverse_scale`; the norm includes it.
  DeviceNumber clip_grad_by_norm(double max_norm, double power = 2, const Tensor& factor = {});
  // Returns the p-norm of all gradients times `factor`: f64, no dimensions. With share_norms it
  // covers all ranks, and all must call it.
  Tensor gradient_norm(double power = 2, const Tensor& factor = {}) const;
  // Returns the norm that clip_grad_by_norm computed, f64 on the device, while the gradients are
  // unchanged; otherwise undefined. If it is finite, every gradient is finite and needs no further
  // check.
  Tensor clipped_norm() const;
  // Returns the factor that a step would apply now, f64 on the device; undefined if there is none.
  Tensor pending_clip() const;
  // Multiplies the factor of the last clip by norm into the gradients in memory. Call it before a
  // backward pass adds to them.
  void settle_clip();
  // Drops the clipped norm because gradients will change. Needed on ranks without gradients, which
  // cannot detect the change.
  void forget_clipped_norm();
  // Clamps every gradient to [-limit, limit], in memory.
  void clip_grad_by_value(double limit);
  // Makes norms from now on cover all ranks.
  void share_norms(NormSharing sharing);
  bool shares_norms() const;

  // --- parameters
  const char* name() const;
  // Returns true if ranks must not share a parameter's elements, because steps compute with whole
  // parameters (Adafactor, Muon); and if a step is a whole minimization (LBFGS).
  bool needs_whole_parameters() const;
  bool minimizes() const;
  Device device() const;
  Parameters parameters() const;
  // Returns those that have a gradient now.
  Parameters parameters_with_grad() const;
  // Adds parameters, between any two calls. Applies a pending clip first, since it belongs to the
  // other parameters. An error, also in on_new_group, leaves the optimizer without the group.
  void add_group(const ParameterGroup& group);
  // Calls `joined` with the parameters of every later group, before they get masters. Code that
  // cuts, rounds or guards an optimizer's parameters thus also handles new ones. `joined` must not
  // hold this handle, because the optimizer keeps `joined`.
  using GroupListener = std::function<void(Optimizer& optimizer, const Parameters& added)>;
  void on_new_group(GroupListener joined);

  // --- options
  int group_count() const;
  const OptimizerOptions& options(int group = 0) const;
  // Sets an option. Throws if it does not exist or is out of range.
  void set_option(int group, const std::string& option, double value);
  // Sets all options of a group at once. Throws for one that is missing, unknown or out of range.
  void set_options(int group, OptimizerOptions options);
  double lr(int group = 0) const { return options(group).at("lr"); }
  void set_lr(double lr);  // of all groups

  // --- ranges
  // Makes steps read and update only these elements of the parameter; the rest of its gradient may
  // be arbitrary. State, master and compensation become tensors of one dimension over the range.
  // Wider ones are narrowed, which frees memory. Rules that use norms of whole parameters also need
  // share_norms. A step counts if the parameter has a gradient on this rank, even if it owns no
  // element. Before the first call the optimizer owns the whole parameter. Throws if there is no
  // such parameter, or for a range outside of it or of the kept values.
  void own(const std::string& parameter, ElementRange range);

  // --- offloading
  // Keeps all stored tensors of parameters (state, masters, compensations, averages, counts) on
  // `device` from now on. Steps run there, with its kernels. A step copies owned gradients, and
  // owned parameters without a master, to `device`, and copies the new values back. It therefore
  // waits for the parameters' device. Norms and clips stay on the parameters' device. Throws unless
  // `device` is the CPU or the parameters' device.
  void keep_state_on(Device device);

  // --- masters
  // Makes steps update `master` and rewrite the 16-bit parameter from it in the same pass. The
  // master is f32, in the parameter's shape or, with one dimension, over the owned range. If the
  // optimizer owns a part and the master is whole, it keeps a copy of that part. The given master
  // must be on the parameter's device or the state's device; the optimizer copies it to the state's
  // device if needed. A master is saved with the optimizer's state. If a program changes the
  // parameter, for example loads weights, the next step takes its values as the new master. This
  // does not apply if the program sets the master too. Throws if there is no such parameter, or if
  // shapes or dtypes do not match.
  void set_master(const std::string& parameter, Tensor master);
  // Gives every 16-bit parameter without a master one with its current values, now and in later
  // groups. Parameters with their own rounding (below) get none.
  void make_masters();
  // Writes masters that changed since the step to their parameters. Call it after ranks have
  // exchanged parameters or masters of a step. A parameter gathered from other ranks already equals
  // its master rounded; its master is kept.
  void settle_masters();
  // Returns the parameter's master; undefined if it has none.
  Tensor master(const std::string& parameter) const;
  // Returns the tensors that steps update: parameters(), each replaced by its master if it has one.
  // The master of a partly owned parameter has one dimension.
  Parameters master_parameters() const;

  // --- 16-bit parameters without masters
  // Sets how later steps round the f32 result for a bf16 parameter. The noise of `stochastic` is a
  // function of `seed`, the parameter's place in the optimizer, its step and the element. Ranks
  // that update the same elements thus get the same bits. The compensation of `kahan` is bf16 and
  // saved with the optimizer's state. Throws if there is no such parameter, if it is not bf16, or
  // if it has a master.
  void set_rounding(const std::string& parameter, UpdateRounding rounding, uint32_t seed = 0);

  // --- state
  OptimizerState state_dict() const;
  // Moves parameters of `saved` into the groups of this optimizer. Each trains with the options of
  // its new group, and its state follows by name. Returns the moved parameters.
  std::vector<MovedParameter> adopt_moved_parameters(OptimizerState& saved) const;
  // Copies to `saved` the options that the program constructs differently from the saved training,
  // and returns them. Options changed before resuming thus take effect. Options that a schedule or
  // set_option changed after construction stay as saved. Throws if the number of groups differs, or
  // for an option that needs other state than the saved one.
  std::vector<ChangedOption> adopt_changed_options(OptimizerState& saved) const;
  // Copies state in. A tensor may cover the whole parameter or any range that contains the owned
  // one (see `parts`; without an entry there, exactly the owned range). An error leaves the
  // optimizer unchanged. It names the parameter or option that does not match, or the parameter
  // that was saved in another group.
  void load_state_dict(const OptimizerState& state);
  // The same in two halves. Checks everything now; calling the result applies the state and cannot
  // fail. It takes over the tensors instead of copying them, so no other code may write to them.
  std::function<void()> prepare_load(const OptimizerState& state);

  // Returns true if both handles refer to one optimizer.
  friend bool operator==(const Optimizer& a, const Optimizer& b) { return a.body_ == b.body_; }

  struct Body;

 private:
  friend class ParameterAverage;
  friend class AveragedWeights;
  Tensor step_after(const std::function<Tensor()>& closure);

  Handle<Body, "optimizer"> body_;
};

// Optimizers that train together; a single one converts.
class Optimizers : public std::vector<Optimizer> {
 public:
  Optimizers() = default;
  Optimizers(const Optimizer& only) : vector{only} {}
  Optimizers(std::vector<Optimizer> all) : vector(std::move(all)) {}
};

// --- clipping gradients in memory, for programs without an Optimizer's own clips. Norms are over
// all gradients together and accumulate in f64, so finite f32 gradients always have a finite norm.
// Both functions throw for gradients of a boosted training, whose optimizer has its own clips.
// Scales all gradients by min(1, max_norm / (norm + 1e-6)) (torch.nn.utils.clip_grad_norm_) and
// returns the norm before scaling. `power` is any p > 0; infinity gives the largest magnitude. For
// an inf or nan norm it throws if `error_if_nonfinite`. Otherwise the gradients become 0 or nan, as
// in PyTorch.
double clip_grad_norm_(const Parameters& parameters, double max_norm, double power = 2,
                       bool error_if_nonfinite = false);

// Clamps every gradient to [-limit, limit]; nan stays nan.
void clip_grad_value_(const Parameters& parameters, double limit);

}  // namespace booster
