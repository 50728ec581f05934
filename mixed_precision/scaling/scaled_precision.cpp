#include "mixed_precision/scaling/loss_scaler.h"
#include "mixed_precision/scaling/scaled_step.h"

namespace booster {

ScaledPrecision::ScaledPrecision(LossScaler scaler, const Scaling& scaling)
    : step_(std::make_unique<ScaledStep>(std::move(scaler), scaling.widens)),
      scales_(scaling.scales) {}

ScaledPrecision::ScaledPrecision(const ScaledPrecision& other)
    : Precision(other), step_(std::make_unique<ScaledStep>(*other.step_)), scales_(other.scales_) {}

ScaledPrecision::~ScaledPrecision() = default;

void ScaledPrecision::prepare(const Model&, const Optimizers& optimizers) {
  step_->serve(optimizers);
}

LossPass ScaledPrecision::begin_loss(const LossStart& start) {
  check_options(start.options);
  if (!scales_) return {};
  step_->begin();
  return {.scale = [this](const Tensor& loss) { return step_->scale(loss); }};
}

void ScaledPrecision::unscale(Optimizer& optimizer) {
  if (scales_) step_->unscale(optimizer);
}

Tensor ScaledPrecision::gradient_factor(const Optimizer& optimizer) const {
  return scales_ ? step_->pending_inverse(optimizer) : Tensor();
}

Verdict ScaledPrecision::inspect(Optimizer& optimizer) {
  return scales_ ? step_->inspect(optimizer) : Verdict{};
}

void ScaledPrecision::abandon(const Optimizer& optimizer) {
  if (scales_) step_->abandon(optimizer);
}

void ScaledPrecision::update(const Verdict& verdict) {
  if (scales_) step_->update(verdict);
}

double ScaledPrecision::loss_scale(int loss_id) const {
  const double none = Precision::loss_scale(loss_id);
  return scales_ ? scaler().get_scale() : none;
}

bool ScaledPrecision::seeks_scale() const { return scales_ && scaler().policy().dynamic; }

std::string ScaledPrecision::refusal() const { return scales_ ? scaler().diagnosis() : ""; }

LossScaler& ScaledPrecision::scaler() { return step_->scaler(); }
const LossScaler& ScaledPrecision::scaler() const { return step_->scaler(); }

}  // namespace booster
