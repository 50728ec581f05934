#include "mixed_precision/fp16_torch.h"

#include "mixed_precision/ops/op_policies.h"

namespace booster {

FP16TorchMixedPrecision::FP16TorchMixedPrecision(GradScalerOptions options) : scaler_(options) {}

Interaction FP16TorchMixedPrecision::interaction(const Layout& layout) const {
  // Only the ranks of one replica's parts see different gradients; data parallel ranks see the sum.
  return {.ranks_agree = layout.tensor > 1 || layout.pipeline > 1 || layout.zero_stage > 0};
}

const OpPolicy* FP16TorchMixedPrecision::policy(Device device) const {
  static const OpPolicy cpu = torch_autocast_policy(DeviceType::cpu, DType::f16);
  static const OpPolicy cuda = torch_autocast_policy(DeviceType::cuda, DType::f16);
  return device.type == DeviceType::cuda ? &cuda : &cpu;
}

Verdict FP16TorchMixedPrecision::inspect(Optimizer& optimizer) {
  if (!scaler_.is_enabled()) return {};
  const Tensor found = scaler_.found_inf(optimizer);
  const Tensor inverse = scaler_.pending_inverse(optimizer);
  scaler_.mark_stepped(optimizer);
  return {found, inverse, scaler_.scale_tensor()};
}

void FP16TorchMixedPrecision::update(const Verdict&) { scaler_.update(); }

}  // namespace booster
