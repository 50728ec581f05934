#include "booster/training/boosted.h"

#include "core/optim/clip.h"

namespace booster {

StepReport::StepReport(Verdict verdict, Tensor norm, std::vector<Tensor> gradients,
                       std::shared_ptr<const Precision> precision)
    : verdict_(std::move(verdict)),
      norm_(std::move(norm)),
      gradients_(std::move(gradients)),
      precision_(std::move(precision)) {}

bool StepReport::skipped() const {
  return verdict_.found_inf.defined() && verdict_.found_inf.item() != 0;
}

double StepReport::loss_scale() const {
  return verdict_.scale.defined() ? verdict_.scale.item() : 1;
}

double StepReport::grad_norm() const {
  if (norm_.defined()) return norm_.item();
  const double norm = gradient_norm(gradients_, 2).item();
  // Does not use loss_scale(), because a step without its own loss divides by an earlier step's
  // scale.
  return verdict_.inverse_scale.defined() ? norm * verdict_.inverse_scale.item() : norm;
}

}  // namespace booster
