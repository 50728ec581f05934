// LossScaler: the one core behind every strategy that scales its loss.
//
//   LossScaler scaler(loss_scale_preset("colossal"));
//   const auto [scaled, inverse] = scaler.scale(loss);     // backward starts from `scaled`
//   const Tensor found = find_non_finite(optimizer, inverse);
//   optimizer.step({found, inverse as pointers});          // does nothing where found != 0
//   scaler.update(found);                                  // grows or backs off
//
// What differs between scalers is a LossScalePolicy (kernels/arguments/loss_scale.h); presets give
// those of other systems (loss_scale_presets.h). Scale, inverse and counters live on the device:
// scale() and update() read nothing back, the others say so. For one thread.
#pragma once

#include "core/optim/optimizer.h"
#include "kernels/arguments/loss_scale.h"

#include <map>
#include <string>

namespace booster {

using kernels::AfterBackoff;
using kernels::LossScalePolicy;
using kernels::LossScaleState;
using kernels::Refill;
using kernels::ScaleRefusal;

// Where a scaler starts. Error if the policy makes no sense or its first scale cannot be used
// (where it `refuses` such).
LossScaleState first_state(const LossScalePolicy& policy);

// The state after one more step. Pure; the very kernel that LossScaler runs on the device.
LossScaleState next(const LossScalePolicy& policy, LossScaleState state, bool found_inf);

// What `state.refused` means and what to do, for people; "" if nothing was refused.
std::string diagnosis(const LossScaleState& state);

// True if losses can be multiplied by `scale` and gradients by its inverse, both in f32.
bool is_usable_scale(double scale);

struct ScaledLoss {
  Tensor loss;     // f32 (f64 for f64), on the tape
  Tensor inverse;  // f32 on the device: what undoes this very scale, whatever update() does
};

class LossScaler {
 public:
  // Starts from first_state(policy), with its errors.
  explicit LossScaler(const LossScalePolicy& policy = {});
  // Starts from any state, unchecked; check_start() tells whether it can be used.
  LossScaler(const LossScalePolicy& policy, const LossScaleState& start)
      : policy_(policy), start_(start) {}

  // loss * scale, computed in f32 at least, so that a 16-bit loss does not overflow. The first call
  // puts the state on the loss's device. Error if the loss is not floating.
  ScaledLoss scale(const Tensor& loss);
  // Grows or backs off by a verdict (one f32 on the device, not 0: bad step; nan is bad too).
  // Error before the first scale().
  void update(const Tensor& found_inf);

  // Puts the state on the device, where it stays. scale() does so where nobody has.
  void start(Device device);
  bool started() const { return scale_.defined(); }
  // The scale in force and its inverse, f32 on the device; undefined before start(). They keep
  // their place: update() writes there, so that a captured step can be replayed. Clone what must
  // outlive an update.
  const Tensor& scale_tensor() const { return scale_; }
  const Tensor& inverse_tensor() const { return inverse_; }
  // Changes whenever the scale may have changed; the host alone counts it.
  int64_t generation() const { return generation_; }

  // Error if the scale that was given last (at construction or by load) cannot be used. Reads
  // nothing from the device: what update() arrives at can always be used.
  void check_start() const;

  const LossScalePolicy& policy() const { return policy_; }
  // Replaces the law, unchecked; scale and counters stay.
  void set_policy(const LossScalePolicy& policy) { policy_ = policy; }

  // --- these wait for the device
  LossScaleState state() const;
  double get_scale() const { return state().scale; }
  // Replaces the scale; counters stay. Errors as load's.
  void set_scale(double scale);
  // What was refused since the start, or "".
  std::string diagnosis() const { return booster::diagnosis(state()); }
  // Error if the scale cannot be used; then nothing changes.
  void load(const LossScaleState& state);
  // The same by name: scale, good_steps, bad_steps.
  std::map<std::string, double> state_dict() const;
  // All or nothing; error if a number is missing or wrong.
  void load_state_dict(const std::map<std::string, double>& state);

 private:
  void write(const LossScaleState& state);

  LossScalePolicy policy_;
  LossScaleState start_;    // given last; the first scale() puts it on the device
  Tensor state_;            // a LossScaleState as bytes
  Tensor scale_, inverse_;  // f32
  int64_t generation_ = 0;
};

// A counter among a strategy's saved numbers. Error if it is missing or not a whole number that a
// double holds exactly.
int64_t saved_counter(const std::map<std::string, double>& state, const std::string& key);

// --- looks at the gradients of an optimizer in one pass over memory. The flag is one f32 on the
// device: 1 if a gradient is not finite, or is not once it is multiplied by `inverse`, else 0.

// Reads only. An undefined `inverse` stands for 1.
Tensor find_non_finite(const Optimizer& optimizer, const Tensor& inverse = {});
// Multiplies in memory: gradients become true ones.
Tensor unscale_gradients(const Optimizer& optimizer, const Tensor& inverse);

}  // namespace booster
