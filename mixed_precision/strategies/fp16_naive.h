// fp16_naive: the whole model in f16 with f32 masters, after Colossal-AI. Every op computes on f16
// tensors; outputs, the loss and its scaling are f32. The loss scale backs off after `hysteresis`
// overflows since its last growth.
//
// Gradients are divided by the scale that the loss was multiplied by. Colossal-AI's own optimizer
// divides by the doubled scale in steps in which the scale grows.
#pragma once

#include "mixed_precision/interface/precision.h"
#include "mixed_precision/scaling/scaled_step.h"

namespace booster {

struct FP16NaiveOptions {
  double initial_scale = 65536;
  double growth_factor = 2;            // > 1
  double backoff_factor = 0.5;         // in (0, 1)
  int64_t growth_interval = 1000;      // finite steps before the scale grows; 0: never
  double min_scale = 1;                // 0: no limit
  double max_scale = 0x1p32;           // 0: no limit
  int64_t hysteresis = 2;              // overflows since the last growth before a back-off
  bool verbose = false;                // reports skipped steps; waits for the device
  bool log_num_zeros_in_grad = false;  // reports how many gradients are 0; waits for the device
};

class FP16Naive : public Precision {
 public:
  // Throws for an option out of range, or a first scale outside the limits.
  explicit FP16Naive(FP16NaiveOptions options = {});

  const char* name() const override { return "fp16_naive"; }
  void prepare(const Model& model, const Optimizers& optimizers) override;
  Tensor cast_input(const Tensor& x) const override;
  Tensor cast_output(const Tensor& y) const override;
  void begin_loss(const ScaleLossOptions& options, const Optimizers& optimizers) override;
  Tensor scale(const Tensor& loss) override { return step_.scale(loss); }
  void unscale(Optimizer& optimizer) override { step_.unscale(optimizer); }
  Tensor gradient_factor(const Optimizer& optimizer) const override {
    return step_.pending_inverse(optimizer);
  }
  Verdict inspect(Optimizer& optimizer) override;
  void abandon(const Optimizer& optimizer) override { step_.abandon(optimizer); }
  void update(const Verdict& verdict) override;
  double loss_scale(int loss_id) const override {
    return Precision::loss_scale(loss_id) * step_.scaler().get_scale();
  }
  bool seeks_scale() const override { return true; }
  std::string refusal() const override { return step_.scaler().diagnosis(); }
  PrecisionState state() const override { return step_.scaler().state_dict(); }
  void load(const PrecisionState& state) override { step_.scaler().load_state_dict(state); }

  LossScaler& scaler() { return step_.scaler(); }

 private:
  FP16NaiveOptions options_;
  ScaledStep step_;
};

}  // namespace booster
