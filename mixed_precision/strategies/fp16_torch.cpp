#include "mixed_precision/strategies/fp16_torch.h"

#include "mixed_precision/scaling/torch_scaler.h"
#include "platform/copies.h"

namespace booster {

namespace {

// Throws for f16 gradients, which torch's scaler cannot unscale: parameters must be f32.
void check_gradients(const Optimizer& optimizer) {
  for (const auto& [name, parameter] : optimizer.parameters_with_grad())
    check(parameter.grad().dtype() != DType::f16,
          "fp16: attempting to unscale FP16 gradients; parameter {} is f16, want f32 parameters, "
          "or f32 masters (fp16_naive)",
          name);
}

}  // namespace

FP16Torch::FP16Torch(GradScalerOptions options)
    : ScaledPrecision(torch_loss_scaler(options), {.scales = options.enabled}), options_(options) {}

const OpPolicy* FP16Torch::policy(Device device) const {
  static const OpPolicy cpu = torch_autocast_policy(DeviceType::cpu, DType::f16);
  static const OpPolicy cuda = torch_autocast_policy(DeviceType::cuda, DType::f16);
  return device.type == DeviceType::cuda ? &cuda : &cpu;
}

void FP16Torch::unscale(Optimizer& optimizer) {
  if (scales()) check_gradients(optimizer);
  ScaledPrecision::unscale(optimizer);
}

Verdict FP16Torch::inspect(Optimizer& optimizer) {
  if (scales()) {
    scaler().check_start();
    check_gradients(optimizer);
  }
  return ScaledPrecision::inspect(optimizer);
}

PrecisionNumbers FP16Torch::state() const {
  return scales() ? torch_state(options_, scaler()) : PrecisionNumbers{};
}

void FP16Torch::load(const PrecisionNumbers& state) {
  if (scales()) load_torch_state(state, options_, scaler());
}

void FP16Torch::set_growth_interval(int64_t steps) {
  options_.growth_interval = steps;
  scaler().set_policy(torch_loss_scale_policy(options_));
}

PrecisionMaker FP16TorchMixedPrecision(GradScalerOptions options) {
  return copies_of<Precision>(FP16Torch(options));
}

}  // namespace booster
