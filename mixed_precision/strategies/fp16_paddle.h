// fp16_paddle: PaddlePaddle's AMP by the rules of its dynamic graph. It also works on CPUs, where
// Paddle's own does nothing. Options and their defaults: paddle_options.h.
//
//   O1  ops run by white and black list, the others in f32 if an argument is f32
//   O2  the model is 16-bit except normalisations; ops off the lists run in f32 if an argument is
//   OD  white ops run in 16 bits, all others in f32
//   O0  f32
//
// Without master_grad, 16-bit gradients are unscaled in their own dtype, where small ones become 0.
// With it, each backward pass accumulates them in f32.
#pragma once

#include "mixed_precision/built_in.h"
#include "mixed_precision/paddle/paddle_options.h"

#include <array>

namespace booster {

class FP16Paddle : public ScaledPrecision {
 public:
  // Throws as resolved() in paddle_options.h.
  explicit FP16Paddle(const FP16PaddleOptions& options = {}) : FP16Paddle(resolved(options)) {}
  explicit FP16Paddle(PaddleSettings settings);

  const char* name() const override { return "fp16_paddle"; }
  // Throws for excluded_layers or custom_black_varnames that the model does not have.
  void check_fits(const Model& model) const override;
  void prepare(const Model& model, const Optimizers& optimizers) override;
  const OpPolicy* policy(Device device) const override;
  // As in Paddle: unscales in memory, where 16-bit gradients lose precision.
  Tensor norm_factor(Optimizer& optimizer) override {
    unscale(optimizer);
    return {};
  }
  std::optional<DType> saved_dtype() const override { return settings_.save_dtype; }
  // Returns the state under Paddle's keys: scale, incr_ratio, decr_ratio, incr_every_n_steps,
  // decr_every_n_nan_or_inf, incr_count, decr_count, use_dynamic_loss_scaling. Empty if the loss is
  // not scaled.
  PrecisionNumbers state() const override;
  void load(const PrecisionNumbers& state) override;

  const PaddleSettings& settings() const { return settings_; }

 private:
  bool stays_f32(const std::string& name, const Module& module) const;

  PaddleSettings settings_;
  // By device type: the policies inside a guard, and outside it if guards are used.
  std::array<OpPolicy, 2> inside_, outside_;
};

}  // namespace booster
