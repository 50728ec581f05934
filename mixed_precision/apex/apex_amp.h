// ApexAmp: Apex's amp for training loops of one's own, with any number of losses, models and
// optimizers. fp16_apex (fp16_apex.h) is the same behind a Booster.
//
//   ApexAmp amp({.opt_level = "O2", .num_losses = 2});
//   amp.initialize({model}, {optimizer});
//   amp.scale_loss(loss, {optimizer}, [](const Tensor& scaled) { scaled.backward(); });
//   clip_grad_norm_(amp.master_params(optimizer), 1.0);
//   amp.step(optimizer);
//
// Gradients come out of scale_loss true: unscaled, in f32, added to those of earlier losses. An
// overflow is noted on the device and consumed by the next step() of each optimizer that was named;
// with a static scale infinities are applied, as in Apex. Nothing waits for the device but state(),
// load() and, at verbosity 2, tell_overflows(). For one thread.
#pragma once

#include "core/nn/module.h"
#include "core/nn/no_options.h"
#include "mixed_precision/apex/apex_properties.h"
#include "mixed_precision/interface/precision.h"
#include "mixed_precision/ops/op_policies.h"
#include "mixed_precision/scaling/scaled_step.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace booster {

class ApexAmp {
 public:
  // Errors: those of resolve().
  explicit ApexAmp(FP16ApexOptions options = {});
  explicit ApexAmp(NoOptions) : ApexAmp() {}
  const ApexProperties& properties() const { return properties_; }

  // --- before initialize, for O1: an op by our name or torch's. Errors: no such op, too late.
  void register_half_function(const std::string& op);
  void register_float_function(const std::string& op);
  void register_promote_function(const std::string& op);

  // Casts the models and makes masters, as the level wants. Errors: called twice, an optimizer
  // given twice, a model that is in f16 already.
  void initialize(const std::vector<Model>& models, const std::vector<Optimizer>& optimizers);

  // --- forward
  // The model in the level's numbers. Loss functions of O1 belong under PolicyScope(policy(...)).
  Tensor forward(const Model& model, const Tensor& x) const;
  const OpPolicy* policy(Device device) const;
  Tensor cast_input(const Tensor& x) const;
  Tensor cast_output(const Tensor& y) const;

  // --- backward and step
  // Calls `backward` with the scaled loss; name every optimizer whose parameters get gradients.
  // Errors: not initialized, no such loss_id, an optimizer that was not given to initialize, or
  // whose gradients are scaled by another loss's scale.
  void scale_loss(const Tensor& loss, const std::vector<Optimizer>& optimizers,
                  const std::function<void(const Tensor& scaled)>& backward,
                  const ScaleLossOptions& options = {});
  // The parts of scale_loss, for a caller that must do something in between: the gradients from
  // before go aside; the loss is scaled (on the rank that has one); backward runs; its gradients
  // become true ones, with a flag on the device (undefined: not looked at), on which ranks may
  // agree; and those from before are added. An optimizer that was not named but whose parameters
  // got gradients counts as named.
  void begin_loss(const ScaleLossOptions& options, const std::vector<Optimizer>& optimizers);
  Tensor scale(const Tensor& loss);
  Tensor unscale();
  void end_loss();
  // What gradients that delay_unscale left scaled are still to be multiplied by; undefined:
  // nothing.
  Tensor pending_inverse(const Optimizer& optimizer) const;
  // Makes such gradients true at once, and remembers what it found for the step.
  void unscale_now(const Optimizer& optimizer);
  // What this pass's loss was multiplied by, at that time; undefined: by nothing.
  Tensor scale_of_pass() const { return pass_.scale; }
  // The optimizer's gradients were thrown away: they are no longer scaled, and nothing is to skip.
  void abandon(const Optimizer& optimizer);
  // Steps unless one of its losses overflowed since the last step. Gradients of parameters with
  // masters are forgotten then. Error if gradients are still scaled.
  void step(Optimizer& optimizer);
  // What the optimizer updates: masters, and parameters without one. After scale_loss the masters'
  // gradients are those of their parameters.
  Parameters master_params(const Optimizer& optimizer) const {
    return optimizer.master_parameters();
  }
  // A copy of the flag (one f32 on the device) that tells whether the optimizer's next step must do
  // nothing: until then, or until abandon(). Undefined: no overflow was looked for. Error if
  // gradients are still scaled.
  Tensor skip_of(const Optimizer& optimizer);

  // --- verbosity 2
  // Where lines go: "Float->Half (linear)" for each cast of O1, and those of tell_overflows; to
  // standard error unless set.
  void set_listener(std::function<void(const std::string& line)> listener);
  // Remembers what was found in the gradients of a loss whose scale is updated.
  void remember_overflow(int loss_id, const Tensor& found);
  // Says which of them were overflows. Waits for the device; scale_loss calls it before the next
  // loss, so that no step waits.
  void tell_overflows();

  // The scaled step of a loss. Error if there is no such loss_id.
  ScaledStep& loss(int loss_id);
  const ScaledStep& loss(int loss_id) const;
  int losses() const { return options_.num_losses; }
  // "loss_scaler0.loss_scale", "loss_scaler0.unskipped", ...; masters are in the optimizers' state.
  PrecisionState state() const;
  void load(const PrecisionState& state);

 private:
  struct Entry {
    Optimizer optimizer;
    int scaled_by = -1;   // the loss whose delay_unscale left its gradients scaled; negative: none
    Tensor inverse = {};  // where scaled: of the scale that they were multiplied by
    int64_t generation = -1;  // of the loss's scaler then
    Tensor skip = {};  // not 0: the next step must do nothing; undefined: nothing was looked at
  };

  // Gradients from before a backward pass, which must not mix with scaled ones.
  class Stash {
   public:
    explicit Stash(const Entry& entry);
    // Multiplied by the scale if the entry's gradients are scaled now.
    void add_back(const Tensor& scale) const;

   private:
    const Entry* entry_;
    std::vector<std::pair<Tensor, Tensor>> kept_;
  };

  // A loss between begin_loss and end_loss.
  struct LossPass {
    ScaleLossOptions options;
    std::vector<Entry*> entries;  // of the named optimizers, then of those that got gradients
    std::vector<Stash> stashes;
    Tensor scale;    // as it is now; undefined: nothing is scaled
    Tensor inverse;  // of it; undefined: nothing is to be unscaled
    Tensor found;    // in the gradients
  };

  struct LookedAt {
    int loss_id;
    Tensor found, scale;  // on the device; the scale after it
  };

  void make_policies();
  void check_function(std::vector<std::string>& functions, const std::string& op);
  Entry& entry(const Optimizer& optimizer);
  std::vector<Entry*> entries(const std::vector<Optimizer>& optimizers);
  // Adds those to the pass that were not named and have gradients now.
  void count_reached();
  void bring_to_scale(Entry& entry, const LossScaler& scaler) const;
  bool does_nothing() const { return !properties_.scales() && !properties_.has_masters(); }
  static void note_overflow(const LossPass& pass);

  FP16ApexOptions options_;
  ApexProperties properties_;
  OpPolicy on_cpu_, on_cuda_;  // O1
  std::vector<ScaledStep> losses_;
  std::vector<Entry> entries_;
  LossPass pass_;
  std::vector<LookedAt> untold_;
  std::function<void(const std::string& line)> listener_;
  bool initialized_ = false;
};

}  // namespace booster
