#include "mixed_precision/bf16.h"

#include "kernels/catalogue.h"
#include "mixed_precision/autocast_lists.h"

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
  std::vector<kernels::TensorSpan> spans;
  for (const auto& parameter : optimizer.parameters_with_grad()) {
    const Tensor grad = parameter.tensor.grad();
    spans.push_back({grad.data(), grad.numel(), grad.dtype()});
  }
  const Device device = optimizer.device();
  Verdict verdict;
  verdict.found_inf = zeros({}, {DType::f32, device});
  const Tensor one = scalar(1, {DType::f32, device});
  kernels::on(device).multi_unscale({spans.data(), static_cast<int64_t>(spans.size())},
                                    static_cast<const float*>(one.data()),
                                    static_cast<float*>(verdict.found_inf.data()));
  return verdict;
}

}  // namespace booster
