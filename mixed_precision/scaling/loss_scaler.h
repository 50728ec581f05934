// Loss scaling at three levels. LossScaler is the core. GradScaler, like torch.amp.GradScaler, is
// for loops without a Booster. ScaledPrecision is the base of strategies that scale. LossScaler:
//
//   LossScaler scaler(loss_scale_preset("colossal"));
//   const auto [scaled, inverse] = scaler.scale(loss);     // backward starts from `scaled`
//   const Tensor found = find_non_finite(optimizer, inverse);
//   optimizer.step(found, inverse);                        // does nothing where found is not 0
//   scaler.update(found);                                  // grows or backs off
//
// Scalers differ in their LossScalePolicy (kernels/arguments/loss_scale.h); loss_scale_preset gives
// other systems' policies. Scale, inverse and counters live on the device. scale()
// and update() read nothing back; members that do are marked. For one thread.
#pragma once

#include "core/optim/optimizer.h"
#include "kernels/arguments/loss_scale.h"
#include "mixed_precision/interface/precision.h"

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace booster {

using kernels::AfterBackoff;
using kernels::LossScalePolicy;
using kernels::LossScaleState;
using kernels::Refill;

// Returns the policy of another system's scaler: torch, apex, paddle_dynamic, paddle_static, fleet,
// colossal, megatron or deepspeed. Throws with these names and the nearest one.
LossScalePolicy loss_scale_preset(std::string_view name);

struct ScaledLoss {
  Tensor loss;     // f32 (f64 for f64), on the tape
  Tensor inverse;  // f32 on the device: the inverse of this scale, unaffected by update()
};

class LossScaler {
 public:
  // Throws if the policy is invalid, or if it `refuses` unusable scales and its first scale is one.
  explicit LossScaler(const LossScalePolicy& policy = {});
  // Starts from any state, unchecked; check_start() throws if it is unusable.
  LossScaler(const LossScalePolicy& policy, const LossScaleState& start)
      : policy_(policy), start_(start) {}

  // Returns loss * scale, in f32 at least, so that a 16-bit loss does not overflow. The first call
  // puts the state on the loss's device. Throws if the loss is not floating.
  ScaledLoss scale(const Tensor& loss);
  // Grows or backs off by a verdict (one f32 on the device; not 0, or nan: bad step). Throws before
  // the first scale().
  void update(const Tensor& found_inf);

  // Puts the state on the device, where it stays. The first scale() does so if needed.
  void start(Device device);
  bool started() const { return scale_.defined(); }
  // Returns the current scale and its inverse, f32 on the device; undefined before start().
  // update() writes them in-place, so that a captured step can be replayed. Clone a value that must
  // outlive an update.
  const Tensor& scale_tensor() const { return scale_; }
  const Tensor& inverse_tensor() const { return inverse_; }
  // Returns a number that changes whenever the scale may have changed. Only the host counts it.
  int64_t generation() const { return generation_; }

  // Throws if the scale of the constructor or the last load is unusable. Reads nothing from the
  // device, because a scale that update() produces is always usable.
  void check_start() const;

  const LossScalePolicy& policy() const { return policy_; }
  // Replaces the policy, unchecked; scale and counters stay.
  void set_policy(const LossScalePolicy& policy) { policy_ = policy; }

  // --- these wait for the device
  LossScaleState state() const;
  double get_scale() const { return state().scale; }
  // Replaces the scale; counters stay. Throws as load() does.
  void set_scale(double scale);
  // Explains the refusals since the start; "" if there are none.
  std::string diagnosis() const;
  // Loads a state. Throws, and changes nothing, if the scale is unusable.
  void load(const LossScaleState& state);
  // Returns the state by name: scale, good_steps, bad_steps.
  std::map<std::string, double> state_dict() const;
  // Loads all values or none; throws if one is missing or invalid.
  void load_state_dict(const std::map<std::string, double>& state);

 private:
  void write(const LossScaleState& state);

  LossScalePolicy policy_;
  LossScaleState start_;    // given last; start() puts it on the device
  Tensor state_;            // a LossScaleState as bytes
  Tensor scale_, inverse_;  // f32
  int64_t generation_ = 0;
};

// --- checks of an optimizer's gradients in one pass over memory. They return a flag, one f32 on
// the device: 1 if a gradient is not finite, before or after multiplication by `inverse`, else 0.

// Reads the gradients and changes none. An undefined `inverse` means 1.
Tensor find_non_finite(const Optimizer& optimizer, const Tensor& inverse = {});
// Multiplies the gradients by `inverse` in memory, which makes them true.
Tensor unscale_gradients(const Optimizer& optimizer, const Tensor& inverse);

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;        // > 1
  double backoff_factor = 0.5;     // < 1
  int64_t growth_interval = 2000;  // finite steps in a row before the scale grows; <= 0: never
  bool enabled = true;             // false: scale() passes through, step() steps
};

// The result of GradScaler::step, read from the device on request.
class ScaledStepReport {
 public:
  explicit ScaledStepReport(Tensor found_inf = {}) : found_inf_(std::move(found_inf)) {}
  // Returns true if a gradient was not finite, so that nothing changed.
  bool skipped() const { return found_inf_.defined() && found_inf_.item() != 0; }

 private:
  Tensor found_inf_;
};

// Scales the loss to preserve small f16 gradients, as torch.amp.GradScaler does.
//
//   scaler.scale(loss).backward();
//   scaler.unscale_(optimizer);            // only to clip or read true gradients
//   scaler.step(optimizer);                // does nothing if a gradient is not finite; see report
//   scaler.update();
//
// Per optimizer the calls follow a state machine (ready -> unscaled -> stepped -> update() makes
// all ready); a call out of order throws. Differences from torch: a loss is scaled in f32 at least,
// so a 16-bit loss with dimensions does not overflow. GradScaler refuses a scale whose inverse is
// not finite and keeps the last usable one; torch corrupts parameters in that case. A gradient that
// overflows when it is unscaled counts as an overflow.
class GradScaler {
 public:
  explicit GradScaler(GradScalerOptions options = {});
  explicit GradScaler(NoOptions) : GradScaler() {}

  // Returns loss * scale, on the tape.
  Tensor scale(const Tensor& loss);
  // Multiplies the optimizer's gradients by 1 / scale in memory and notes whether all are finite.
  // Throws before the first scale(), for a second call, after step, and for an f16 gradient, which
  // it names.
  void unscale_(Optimizer& optimizer);
  // Steps unless a gradient is not finite. True gradients remain in memory, with or without
  // unscale_(). f16 gradients are allowed without unscale_(): the step reads them scaled, and small
  // ones become 0 in memory only after it. Throws before the first scale(), for a second call since
  // update(), and if the optimizer has no gradient.
  ScaledStepReport step(Optimizer& optimizer);
  // Grows the scale or backs off. Throws if no optimizer's gradients were checked since the last
  // update.
  void update();
  // Sets the scale; counters stay. Throws unless it is a finite number > 0.
  void update(double new_scale);

  bool is_enabled() const { return options_.enabled; }
  const GradScalerOptions& options() const { return options_; }
  // Sets the factor; does not check it, as in torch.
  void set_growth_factor(double factor);
  void set_backoff_factor(double factor);
  void set_growth_interval(int64_t steps);

  // --- these wait for the device
  double get_scale() const;
  int64_t growth_tracker() const;
  // Explains the refusals since the start; "" if there are none.
  std::string diagnosis() const { return scaler_.diagnosis(); }
  // Returns the state under torch's keys; empty if disabled.
  std::map<std::string, double> state_dict() const;
  // Loads all values or none; throws if a key is missing.
  void load_state_dict(const std::map<std::string, double>& state);

 private:
  enum class Stage { ready, unscaled, stepped };
  struct Entry {
    Optimizer optimizer;
    Stage stage = Stage::ready;
    Tensor found_inf;
  };

  Entry& entry(const Optimizer& optimizer);
  void check_started(const char* call) const;
  void begin(const char* call, Optimizer& optimizer);
  void check_gradients(const Parameters& with_grad) const;
  void step_scaled(Optimizer& optimizer, Entry& mine);
  void follow_options();

  GradScalerOptions options_;
  LossScaler scaler_;
  std::vector<Entry> entries_;
};

// The base of strategies that scale the loss. It tracks which gradients are scaled, for any order
// of calls in a loop (scaled_step.h). The derived strategy adds dtypes; if it overrides prepare, it
// calls this one too.
class ScaledPrecision : public Precision {
 public:
  ~ScaledPrecision() override;
  void prepare(const Model& model, const Optimizers& optimizers) override;
  LossPass begin_loss(const LossStart& start) override;
  void unscale(Optimizer& optimizer) override;
  Tensor gradient_factor(const Optimizer& optimizer) const override;
  Verdict inspect(Optimizer& optimizer) override;
  void abandon(const Optimizer& optimizer) override;
  void update(const Verdict& verdict) override;
  double loss_scale(int loss_id) const override;
  bool seeks_scale() const override;
  std::string refusal() const override;

  LossScaler& scaler();
  const LossScaler& scaler() const;

 protected:
  struct Scaling {
    bool scales = true;  // false: neither scales nor checks, as fp32
    // True: unscaling in memory turns 16-bit gradients into f32. False: it keeps their dtype, where
    // small ones become 0, as in Paddle without master gradients.
    bool widens = true;
  };
  explicit ScaledPrecision(LossScaler scaler) : ScaledPrecision(std::move(scaler), {}) {}
  ScaledPrecision(LossScaler scaler, const Scaling& scaling);
  ScaledPrecision(const ScaledPrecision& other);

  bool scales() const { return scales_; }

 private:
  std::unique_ptr<class ScaledStep> step_;
  bool scales_;
};

}  // namespace booster
