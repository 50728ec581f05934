// The loss-scaled part of a training step, shared by fp16, fp16_naive, fp16_apex and fp16_paddle.
//
// Gradients in memory are the true ones times a scale. Each optimizer's entry notes that scale when
// a backward pass begins. A later growth thus cannot make the step divide by the wrong scale.
// Gradients may remain from before a pass: by accumulation, a clip by value that unscaled them, or
// a step without zero_grad. The pass first converts them to the current scale, so that sums have
// one scale. It remembers an overflow found while unscaling as long as these gradients exist, even
// if they change later. Reads nothing from the device. For one thread.
#pragma once

#include "mixed_precision/interface/precision.h"
#include "mixed_precision/scaling/loss_scaler.h"

#include <vector>

namespace booster {

// Replaces the gradients of 16-bit parameters by f32 ones with the same values, so that small
// values survive unscaling in memory (unscale_gradients in loss_scaler.h).
void widen_gradients(const Optimizer& optimizer);

class ScaledStep {
 public:
  // If `widens` is true, unscaling in memory turns 16-bit gradients into f32. Otherwise it keeps
  // their dtype, where small ones become 0, as in Paddle without master gradients.
  explicit ScaledStep(const LossScalePolicy& policy, bool widens = true)
      : ScaledStep(LossScaler(policy), widens) {}
  explicit ScaledStep(LossScaler scaler, bool widens = true)
      : scaler_(std::move(scaler)), widens_(widens) {}

  // Sets the optimizers whose gradients a scaled loss may reach. Called once.
  void serve(const Optimizers& optimizers);
  // Begins a backward pass, on this or another rank. Throws if an optimizer has gradients that this
  // object's passes did not make.
  void begin();
  // Returns loss * scale, in f32 at least.
  Tensor scale(const Tensor& loss) { return scaler_.scale(loss).loss; }
  // Makes gradients in memory true; if it widens, also f32 for 16-bit parameters. Does nothing if
  // they are true. Throws as begin().
  void unscale(Optimizer& optimizer);
  // Returns the factor that still applies to gradients in memory; undefined if they are true.
  Tensor pending_inverse(const Optimizer& optimizer) const;
  // Returns the local verdict. Throws as begin().
  Verdict inspect(Optimizer& optimizer);
  // Grows the scale or backs off.
  void update(const Verdict& agreed);
  // Reports that the optimizer's gradients were dropped; forgets any overflow found in them.
  void abandon(const Optimizer& optimizer);

  LossScaler& scaler() { return scaler_; }
  const LossScaler& scaler() const { return scaler_; }

 private:
  enum class Gradients : uint8_t { unknown, scaled, plain };
  struct Entry {
    Optimizer optimizer;
    Gradients gradients = Gradients::unknown;
    Tensor inverse = {};      // if scaled: of the scale at that time; stays in place
    int64_t generation = -1;  // the scaler's at that time
    Tensor found_inf = {};    // by unscaling, since gradients were last dropped
  };

  Entry& entry(const Optimizer& optimizer);
  void bring_to_scale(Entry& entry) const;
  static void check_known(const Entry& entry);

  LossScaler scaler_;
  bool widens_;
  std::vector<Entry> entries_;
};

}  // namespace booster
