#include "mixed_precision/interface/precision.h"

namespace booster {

void Precision::check_loss_id(int loss_id) const {
  check(loss_id == 0,
        "{}: loss_id is out of range; got {}, want 0: it has one scale for all losses (fp16_apex "
        "has as many as num_losses says)",
        name(), loss_id);
}

Tensor Precision::norm_factor(Optimizer& optimizer) {
  Tensor factor = gradient_factor(optimizer);
  if (!factor.defined()) unscale(optimizer);
  return factor;
}

double Precision::loss_scale(int loss_id) const {
  check_loss_id(loss_id);
  return 1;
}

void Precision::begin_loss(const ScaleLossOptions& options, const Optimizers&) {
  check_loss_id(options.loss_id);
  check(!options.delay_overflow_check,
        "{}: delay_overflow_check: no such choice here; want fp16_apex with num_losses > 1",
        name());
}

}  // namespace booster
