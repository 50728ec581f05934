// What ApexAmp (apex_amp.h) and the strategy fp16_apex share. For one thread.
#pragma once

#include "mixed_precision/built_in.h"
#include "mixed_precision/scaling/scaled_step.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace booster {

struct ApexProperties;

class ApexBody {
 public:
  // Throws as resolve() does.
  explicit ApexBody(FP16ApexOptions options);
  ApexBody(const ApexBody& other);
  ~ApexBody();
  const ApexProperties& properties() const { return *properties_; }

  // --- before initialize, for O1: an op by our name or torch's. Throw for an unknown op or a late
  // call.
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

  // --- verbosity 2 Sets the receiver of lines: "Float->Half (linear)" for each cast of O1, and the
  // lines of tell_overflows. Default: standard error.
  void set_listener(std::function<void(const std::string& line)> listener);
  // Remembers the overflow flag of a loss whose scale is updated.
  void remember_overflow(int loss_id, const Tensor& found);
  // Prints which remembered flags were overflows. Waits for the device; scale_loss calls it before
  // the next loss, so that no step waits.
  void tell_overflows();

  // The scaled step of a loss. Throws for an unknown loss_id.
  ScaledStep& loss(int loss_id);
  const ScaledStep& loss(int loss_id) const;
  int losses() const { return options_.num_losses; }
  // "loss_scaler0.loss_scale", "loss_scaler0.unskipped", ...; masters are in the optimizers' state.
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

}  // namespace booster
