// The loss-scaled part of a training step: what fp16, fp16_naive, fp16_apex and fp16_paddle share.
//
// Gradients in memory are the true ones times a scale. Which scale, each optimizer's entry knows:
// it is noted when a backward pass begins, so that a scale that grows in between cannot divide by
// the wrong number. Gradients that are still there from before (accumulation, a clip by value that
// had to unscale them, a step without zero_grad) are multiplied to the scale in force first, so
// that what a pass adds always fits. An overflow that was found while unscaling is remembered as
// long as there are these gradients, whatever is done to them after. Reads nothing from the device.
// For one thread.
#pragma once

#include "mixed_precision/interface/precision.h"
#include "mixed_precision/scaling/loss_scaler.h"

#include <vector>

namespace booster {

class ScaledStep {
 public:
  // With `widens` 16-bit gradients become f32 when they are unscaled in memory. Without, they are
  // unscaled in their own dtype, where small ones become 0: what Paddle does unless it is told to
  // make master gradients.
  explicit ScaledStep(const LossScalePolicy& policy, bool widens = true)
      : ScaledStep(LossScaler(policy), widens) {}
  explicit ScaledStep(LossScaler scaler, bool widens = true)
      : scaler_(std::move(scaler)), widens_(widens) {}

  // The optimizers whose gradients a scaled loss may reach. Once.
  void serve(const Optimizers& optimizers);
  // A backward pass begins, here or on another rank. Error if an optimizer has gradients that no
  // backward pass of ours made.
  void begin();
  // loss * scale, in f32 at least.
  Tensor scale(const Tensor& loss) { return scaler_.scale(loss).loss; }
  // True gradients in memory, those of 16-bit parameters as f32 if it widens. Does nothing where
  // they are. Error as begin's.
  void unscale(Optimizer& optimizer);
  // What gradients in memory must still be multiplied by; undefined where they are true.
  Tensor pending_inverse(const Optimizer& optimizer) const;
  // The local verdict. Error as begin's.
  Verdict inspect(Optimizer& optimizer);
  // Grows or backs off.
  void update(const Verdict& agreed);
  // The optimizer's gradients were thrown away, and with them what was found there.
  void abandon(const Optimizer& optimizer);

  LossScaler& scaler() { return scaler_; }
  const LossScaler& scaler() const { return scaler_; }

 private:
  enum class Gradients : uint8_t { unknown, scaled, plain };
  struct Entry {
    Optimizer optimizer;
    Gradients gradients = Gradients::unknown;
    Tensor inverse = {};      // where scaled: of the scale of that moment; keeps its place
    int64_t generation = -1;  // of the scaler then
    Tensor found_inf = {};    // by unscaling, since gradients were last forgotten
  };

  Entry& entry(const Optimizer& optimizer);
  void bring_to_scale(Entry& entry) const;
  static void check_known(const Entry& entry);

  LossScaler scaler_;
  bool widens_;
  std::vector<Entry> entries_;
};

}  // namespace booster
