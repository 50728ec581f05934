#include "mixed_precision/scaling/scaled_step.h"

#include "mixed_precision/model_cast.h"

namespace booster {

namespace {

bool has_16_bit_gradients(const Optimizer& optimizer) {
  for (const auto& parameter : optimizer.parameters_with_grad())
    if (is_16_bit(parameter.tensor.grad().dtype())) return true;
  return false;
}

}  // namespace

Tensor ScaledStep::scale(const Tensor& loss) {
  auto [scaled, inverse] = scaler_.scale(loss);
  inverse_ = std::move(inverse);
  return scaled;
}

Tensor ScaledStep::found_in(const Optimizer& optimizer) const {
  for (const Unscaled& unscaled : unscaled_)
    if (unscaled.optimizer == optimizer) return unscaled.found_inf;
  return {};
}

Tensor ScaledStep::pending_inverse(const Optimizer& optimizer) const {
  return found_in(optimizer).defined() ? Tensor() : inverse_;
}

void ScaledStep::unscale(Optimizer& optimizer) {
  if (found_in(optimizer).defined()) return;
  check(inverse_.defined(),
        "unscale: no loss was scaled since the last step; want a backward pass");
  if (widens_) widen_gradients(optimizer);
  unscaled_.push_back({optimizer, unscale_gradients(optimizer, inverse_)});
}

Verdict ScaledStep::inspect(Optimizer& optimizer) {
  check(inverse_.defined(), "step: no loss was scaled since the last one; want a backward pass");
  if (!widens_ && has_16_bit_gradients(optimizer)) unscale(optimizer);
  const bool looks = scaler_.policy().skips;
  Tensor found = found_in(optimizer);
  if (looks && !found.defined()) found = find_non_finite(optimizer, inverse_);
  return {looks ? found : Tensor(), pending_inverse(optimizer), scaler_.scale_tensor()};
}

void ScaledStep::update(const Verdict& agreed) {
  const Tensor& found = agreed.found_inf;
  scaler_.update(found.defined() ? found : zeros({}, {DType::f32, inverse_.device()}));
  inverse_ = Tensor();
  unscaled_.clear();
}

}  // namespace booster
