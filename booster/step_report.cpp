#include "booster/step_report.h"

#include "core/optim/clip.h"

namespace booster {

StepReport::StepReport(Verdict verdict, double clipped_norm, std::vector<Tensor> gradients)
    : verdict_(std::move(verdict)), clipped_norm_(clipped_norm), gradients_(std::move(gradients)) {}

bool StepReport::skipped() const {
  return verdict_.found_inf.defined() && verdict_.found_inf.item() != 0;
}

double StepReport::loss_scale() const {
  return verdict_.scale.defined() ? verdict_.scale.item() : 1;
}

double StepReport::grad_norm() const {
  if (clipped_norm_ >= 0) return clipped_norm_;
  const double norm = gradient_norm(gradients_, 2).item();
  return verdict_.inverse_scale.defined() ? norm / loss_scale() : norm;
}

}  // namespace booster
