// ApexAmp: Apex's amp for custom training loops, with any number of losses, models and optimizers.
// With a Booster, use FP16ApexMixedPrecision (built_in.h).
//
//   ApexAmp amp({.opt_level = "O2", .num_losses = 2});
//   amp.initialize({model}, {optimizer});
//   amp.scale_loss(loss, {optimizer}, [](const Tensor& scaled) { scaled.backward(); });
//   clip_grad_norm_(amp.master_params(optimizer), 1.0);
//   amp.step(optimizer);
//
// scale_loss leaves true gradients: unscaled, in f32, added to earlier losses' gradients. It notes
// an overflow in a flag on the device. The next step() of each named optimizer consumes the flag.
// With a static scale the step applies infinities, as in Apex. Only state(), load() and, at
// verbosity 2, tell_overflows() wait for the device. For one thread.
#pragma once

#include "core/nn/module.h"
#include "core/nn/no_options.h"
#include "mixed_precision/built_in.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace booster {

class ScaledStep;
struct ApexProperties;

class ApexAmp {
 public:
  // Throws as resolve() does.
  explicit ApexAmp(FP16ApexOptions options = {});
  explicit ApexAmp(NoOptions) : ApexAmp() {}
  ApexAmp(const ApexAmp& other);
  ~ApexAmp();
  const ApexProperties& properties() const { return *properties_; }

  // --- before initialize, for O1: an op by our name or torch's. Throws for an unknown op, or after
  // initialize.
  void register_half_function(const std::string& op);
  void register_float_function(const std::string& op);
  void register_promote_function(const std::string& op);

  // Casts the models and makes masters, as the level requires. Throws if called twice, for an
  // optimizer given twice, and for a model that is already in f16.
  void initialize(const std::vector<Model>& models, const std::vector<Optimizer>& optimizers);

  // --- forward
  // Runs the model in the level's precision. Loss functions of O1 belong under
  // PolicyScope(policy(...)).
  Tensor forward(const Model& model, const Tensor& x) const;
  const OpPolicy* policy(Device device) const;
  Tensor cast_input(const Tensor& x) const;
  Tensor cast_output(const Tensor& y) const;

  // --- backward and step
  // Calls `backward` with the scaled loss; name every optimizer whose parameters get gradients.
  // Throws before initialize, and for an unknown loss_id. It also throws for an optimizer that
  // initialize does not know, or whose gradients another loss's scale still scales.
  void scale_loss(const Tensor& loss, const std::vector<Optimizer>& optimizers,
                  const std::function<void(const Tensor& scaled)>& backward,
                  const ScaleLossOptions& options = {});
  // Do the parts of scale_loss, for a caller that must act in between:
  //   begin_loss  sets earlier gradients aside
  //   scale       scales the loss, on the rank that has one; then backward runs
  //   unscale     makes the pass's gradients true, and returns a flag on the device on which ranks
  //               may agree (undefined: gradients were not checked)
  //   end_loss    adds the earlier gradients back
  // An optimizer that was not named but whose parameters got gradients counts as named.
  void begin_loss(const ScaleLossOptions& options, const std::vector<Optimizer>& optimizers);
  Tensor scale(const Tensor& loss);
  Tensor unscale();
  void end_loss();
  // Returns the factor that still applies to gradients that delay_unscale left scaled; undefined:
  // none.
  Tensor pending_inverse(const Optimizer& optimizer) const;
  // Unscales such gradients now, and keeps the result of its check for the step.
  void unscale_now(const Optimizer& optimizer);
  // Returns the scale of this pass's loss; undefined: none.
  Tensor scale_of_pass() const { return pass_.scale; }
  // Reports that the optimizer's gradients were dropped. They no longer count as scaled, and skip
  // no step.
  void abandon(const Optimizer& optimizer);
  // Steps unless one of the optimizer's losses overflowed since the last step. Either way it drops
  // the gradients of parameters with masters. Throws if gradients are still scaled.
  void step(Optimizer& optimizer);
  // Returns what the optimizer updates: masters, and parameters without one. After scale_loss, the
  // masters' gradients are their parameters' gradients.
  Parameters master_params(const Optimizer& optimizer) const {
    return optimizer.master_parameters();
  }
  // Returns a copy of the flag (one f32 on the device) that makes the optimizer's next step do
  // nothing. The flag stays set until that step, or until abandon(). Returns an undefined tensor if
  // no check was made. Throws if gradients are still scaled.
  Tensor skip_of(const Optimizer& optimizer);

  // --- verbosity 2
  // Sets the receiver of lines: "Float->Half (linear)" for each cast of O1, and the lines of
  // tell_overflows. Default: standard error.
  void set_listener(std::function<void(const std::string& line)> listener);
  // Remembers the overflow flag of a loss whose scale is updated.
  void remember_overflow(int loss_id, const Tensor& found);
  // Prints which remembered flags were overflows. Waits for the device; scale_loss calls it before
  // the next loss, so that no step waits.
  void tell_overflows();

  // Returns the scaler of a loss. Throws for an unknown loss_id.
  const LossScaler& scaler(int loss_id) const;
  // Returns the scaled step of a loss (mixed_precision/scaling/scaled_step.h). For the strategy.
  ScaledStep& loss(int loss_id);
  const ScaledStep& loss(int loss_id) const;
  int losses() const { return options_.num_losses; }
  // Returns "loss_scaler0.loss_scale", "loss_scaler0.unskipped", ...; masters are in the
  // optimizers' state.
  PrecisionNumbers state() const;
  void load(const PrecisionNumbers& state);

 private:
  struct Entry {
    Optimizer optimizer;
    int scaled_by = -1;   // loss whose delay_unscale left the gradients scaled; negative: none
    Tensor inverse = {};  // if scaled: the inverse of their scale
    int64_t generation = -1;  // generation of the loss's scaler at that time
    Tensor skip = {};         // not 0: the next step must do nothing; undefined: not checked
  };

  // Gradients from before a backward pass, kept apart from scaled ones.
  class Stash {
   public:
    explicit Stash(const Entry& entry);
    // Multiplies by the scale first if the entry's gradients are scaled now.
    void add_back(const Tensor& scale) const;

   private:
    const Entry* entry_;
    std::vector<std::pair<Tensor, Tensor>> kept_;
  };

  // A loss between begin_loss and end_loss.
  struct LossPass {
    ScaleLossOptions options;
    std::vector<Entry*> entries;  // of the named optimizers, then of others that got gradients
    std::vector<Stash> stashes;
    Tensor scale;    // as of begin_loss; undefined: nothing is scaled
    Tensor inverse;  // of `scale`; undefined: nothing to unscale
    Tensor found;    // overflow flag of the gradients
  };

  struct LookedAt {
    int loss_id;
    Tensor found, scale;  // on the device; the scale after it
  };

  void make_policies();
  void check_function(std::vector<std::string>& functions, const std::string& op);
  Entry& entry(const Optimizer& optimizer);
  std::vector<Entry*> entries(const std::vector<Optimizer>& optimizers);
  // Adds unnamed entries that now have gradients to the pass.
  void count_reached();
  void bring_to_scale(Entry& entry, const LossScaler& scaler) const;
  bool does_nothing() const;
  static void note_overflow(const LossPass& pass);

  FP16ApexOptions options_;
  std::shared_ptr<const ApexProperties> properties_;
  OpPolicy on_cpu_, on_cuda_;  // O1
  std::vector<ScaledStep> losses_;
  std::vector<Entry> entries_;
  LossPass pass_;
  std::vector<LookedAt> untold_;
  std::function<void(const std::string& line)> listener_;
  bool initialized_ = false;
};

// --- Apex's decorators for O1, as wrappers and scopes. They have an effect only in a forward pass
// at level O1, as Apex's do only while its handle is active.
//
//   auto attention = half_function(my_attention);   // floating arguments are cast to f16
//   {
//     const ApexFunctionScope scope(OpClass::fp32);  // every op in here casts to f32
//   }
//   const PolicyScope as_it_is(nullptr);             // Apex's disable_casts()

// Casts a function's tensor arguments as an op of that class does, then calls it.
template <class F>
auto cast_arguments_of(OpClass op_class, F function) {
  return [op_class, function = std::move(function)](auto... arguments) {
    if (const OpPolicy* policy = current_policy()) {
      std::vector<Tensor*> tensors;
      const auto collect = [&](auto& argument) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(argument)>, Tensor>)
          tensors.push_back(&argument);
      };
      (collect(arguments), ...);
      OpPolicy as_one_op = *policy;
      as_one_op.set(Op::matmul, op_class);
      cast_arguments(as_one_op, Op::matmul, tensors);
    }
    return function(arguments...);
  };
}

template <class F>
auto half_function(F function) {
  return cast_arguments_of(OpClass::lower_precision, std::move(function));
}
template <class F>
auto float_function(F function) {
  return cast_arguments_of(OpClass::fp32, std::move(function));
}
template <class F>
auto promote_function(F function) {
  return cast_arguments_of(OpClass::widest, std::move(function));
}

// Gives every op of this thread one class until the scope ends: lower_precision, fp32 or widest.
class ApexFunctionScope {
 public:
  explicit ApexFunctionScope(OpClass op_class) {
    if (!current_policy()) return;
    policy_ = *current_policy();
    policy_.classes.fill(op_class);
    scope_.emplace(&policy_);
  }

 private:
  OpPolicy policy_;
  std::optional<PolicyScope> scope_;
};

}  // namespace booster
