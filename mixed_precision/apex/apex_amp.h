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
#include "mixed_precision/built_in.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace booster {

class ApexBody;
struct ApexProperties;

class ApexAmp {
 public:
  // Throws for an unknown level, and for properties that the level does not allow.
  explicit ApexAmp(FP16ApexOptions options = {});
  explicit ApexAmp(NoOptions) : ApexAmp() {}
  ApexAmp(const ApexAmp& other);
  ~ApexAmp();
  const ApexProperties& properties() const;

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

  // --- backward and step
  // Calls `backward` with the scaled loss; name every optimizer whose parameters get gradients.
  // Throws before initialize, and for an unknown loss_id. It also throws for an optimizer that
  // initialize does not know, or whose gradients another loss's scale still scales.
  void scale_loss(const Tensor& loss, const std::vector<Optimizer>& optimizers,
                  const std::function<void(const Tensor& scaled)>& backward,
                  const ScaleLossOptions& options = {});
  // Steps unless one of the optimizer's losses overflowed since the last step. Either way it drops
  // the gradients of parameters with masters. Throws if gradients are still scaled.
  void step(Optimizer& optimizer);
  // Returns what the optimizer updates: masters, and parameters without one. After scale_loss, the
  // masters' gradients are their parameters' gradients.
  Parameters master_params(const Optimizer& optimizer) const {
    return optimizer.master_parameters();
  }

  // Sets where lines of verbosity 2 go: "Float->Half (linear)" for each cast of O1, and the lines
  // of tell_overflows. Default: standard error.
  void set_listener(std::function<void(const std::string& line)> listener);
  // Prints which losses overflowed. Waits for the device; scale_loss calls it before the next loss,
  // so that no step waits.
  void tell_overflows();

  // Returns the scaler of a loss. Throws for an unknown loss_id.
  LossScaler& scaler(int loss_id);
  // Returns "loss_scaler0.loss_scale", "loss_scaler0.unskipped", ...; masters are in the
  // optimizers' state.
  PrecisionNumbers state() const;
  void load(const PrecisionNumbers& state);

 private:
  std::unique_ptr<ApexBody> body_;
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
