// LossScaler: the shared core of all strategies that scale the loss.
//
//   LossScaler scaler(loss_scale_preset("colossal"));
//   const auto [scaled, inverse] = scaler.scale(loss);     // backward starts from `scaled`
//   const Tensor found = find_non_finite(optimizer, inverse);
//   optimizer.step({found, inverse as pointers});          // does nothing where found != 0
//   scaler.update(found);                                  // grows or backs off
//
// Scalers differ in their LossScalePolicy (kernels/arguments/loss_scale.h); presets give other
// systems' policies (loss_scale_presets.h). Scale, inverse and counters live on the device. scale()
// and update() read nothing back; members that do are marked. For one thread.
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

// Returns a scaler's first state. Throws if the policy is invalid, or if it `refuses` unusable
// scales and its first scale is one.
LossScaleState first_state(const LossScalePolicy& policy);

// Returns the state after one more step. Pure; LossScaler runs the same kernel on the device.
LossScaleState next(const LossScalePolicy& policy, LossScaleState state, bool found_inf);

// What `state.refused` means and what to do, as text for users; "" if nothing was refused.
std::string diagnosis(const LossScaleState& state);

// Whether losses can be multiplied by `scale` and gradients by its inverse, both in f32.
bool is_usable_scale(double scale);

struct ScaledLoss {
  Tensor loss;     // f32 (f64 for f64), on the tape
  Tensor inverse;  // f32 on the device: the inverse of this scale, whatever update() does
};

class LossScaler {
 public:
  // Starts from first_state(policy), with its errors.
  explicit LossScaler(const LossScalePolicy& policy = {});
  // Starts from any state, unchecked; check_start() throws if it cannot be used.
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
  // The current scale and its inverse, f32 on the device; undefined before start(). update() writes
  // them in-place, so that a captured step can be replayed. Clone a value that must outlive an
  // update.
  const Tensor& scale_tensor() const { return scale_; }
  const Tensor& inverse_tensor() const { return inverse_; }
  // Changes whenever the scale may have changed; counted on the host only.
  int64_t generation() const { return generation_; }

  // Throws if the scale given last (at construction or by load) cannot be used. Reads nothing from
  // the device: a scale that update() produces can always be used.
  void check_start() const;

  const LossScalePolicy& policy() const { return policy_; }
  // Replaces the policy, unchecked; scale and counters stay.
  void set_policy(const LossScalePolicy& policy) { policy_ = policy; }

  // --- these wait for the device
  LossScaleState state() const;
  double get_scale() const { return state().scale; }
  // Replaces the scale; counters stay. Throws as load().
  void set_scale(double scale);
  // What was refused since the start, or "".
  std::string diagnosis() const { return booster::diagnosis(state()); }
  // Throws if the scale cannot be used; nothing changes then.
  void load(const LossScaleState& state);
  // The state by name: scale, good_steps, bad_steps.
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

// Returns a counter of a strategy's saved values. Throws if it is missing or not an integer that a
// double holds exactly.
int64_t saved_counter(const std::map<std::string, double>& state, const std::string& key);

// --- checks of an optimizer's gradients in one pass over memory. They return a flag, one f32 on
// the device: 1 if a gradient is not finite, before or after multiplication by `inverse`, else 0.

// Only reads. An undefined `inverse` means 1.
Tensor find_non_finite(const Optimizer& optimizer, const Tensor& inverse = {});
// Multiplies the gradients by `inverse` in memory, which makes them true.
Tensor unscale_gradients(const Optimizer& optimizer, const Tensor& inverse);

}  // namespace booster
