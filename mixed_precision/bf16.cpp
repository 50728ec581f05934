#include "mixed_precision/bf16.h"

#include "mixed_precision/loss_scaler.h"
#include "mixed_precision/op_policies.h"

namespace booster {

Interaction BF16MixedPrecision::interaction(const Layout& layout) const {
  const bool split = layout.tensor > 1 || layout.pipeline > 1 || layout.zero_stage > 0;
  return {.ranks_agree = options_.skip_non_finite && split};
}

const OpPolicy* BF16MixedPrecision::policy(Device device) const {
  static const OpPolicy cpu = torch_autocast_policy(DeviceType::cpu, DType::bf16);
  static const OpPolicy cuda = torch_autocast_policy(DeviceType::cuda, DType::bf16);
  return device.type == DeviceType::cuda ? &cuda : &cpu;
}

Verdict BF16MixedPrecision::inspect(Optimizer& optimizer) {
  if (!options_.skip_non_finite) return {};
  return {find_non_finite(optimizer), {}, {}};
}

}  // namespace booster
