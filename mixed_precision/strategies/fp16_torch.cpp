#include "mixed_precision/strategies/fp16_torch.h"

#include "mixed_precision/ops/op_policies.h"

namespace booster {

namespace {

// torch's scaler cannot unscale f16 gradients: parameters are f32.
void check_gradients(const Optimizer& optimizer) {
  for (const auto& [name, parameter] : optimizer.parameters_with_grad())
    check(parameter.grad().dtype() != DType::f16,
          "fp16: attempting to unscale FP16 gradients; parameter {} is f16, want f32 parameters "
          "(or masters, as fp16_naive keeps them)",
          name);
}

}  // namespace

FP16Torch::FP16Torch(GradScalerOptions options)
    : options_(options), step_(torch_loss_scaler(options)) {}

void FP16Torch::prepare(const Model&, const Optimizers& optimizers) {
  step_.serve(optimizers);
}

const OpPolicy* FP16Torch::policy(Device device) const {
  static const OpPolicy cpu = torch_autocast_policy(DeviceType::cpu, DType::f16);
  static const OpPolicy cuda = torch_autocast_policy(DeviceType::cuda, DType::f16);
  return device.type == DeviceType::cuda ? &cuda : &cpu;
}

void FP16Torch::begin_loss(const ScaleLossOptions& options,
                                         const Optimizers& optimizers) {
  Precision::begin_loss(options, optimizers);
  if (options_.enabled) step_.begin();
}

Tensor FP16Torch::scale(const Tensor& loss) {
  return options_.enabled ? step_.scale(loss) : loss;
}

void FP16Torch::unscale(Optimizer& optimizer) {
  if (!options_.enabled) return;
  check_gradients(optimizer);
  step_.unscale(optimizer);
}

Tensor FP16Torch::gradient_factor(const Optimizer& optimizer) const {
  return options_.enabled ? step_.pending_inverse(optimizer) : Tensor();
}

Verdict FP16Torch::inspect(Optimizer& optimizer) {
  if (!options_.enabled) return {};
  step_.scaler().check_start();
  check_gradients(optimizer);
  return step_.inspect(optimizer);
}

void FP16Torch::update(const Verdict& verdict) {
  if (options_.enabled) step_.update(verdict);
}

double FP16Torch::loss_scale(int loss_id) const {
  const double none = Precision::loss_scale(loss_id);
  return options_.enabled ? step_.scaler().get_scale() : none;
}

PrecisionState FP16Torch::state() const {
  return options_.enabled ? torch_state(options_, step_.scaler()) : PrecisionState{};
}

void FP16Torch::load(const PrecisionState& state) {
  if (options_.enabled) load_torch_state(state, options_, step_.scaler());
}

void FP16Torch::set_growth_interval(int64_t steps) {
  options_.growth_interval = steps;
  step_.scaler().set_policy(torch_loss_scale_policy(options_));
}

}  // namespace booster
