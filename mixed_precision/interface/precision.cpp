#include "mixed_precision/interface/precision.h"

namespace booster {

void Reporter::check_only_loss(int loss_id) const {
  check(loss_id == 0,
        "{}: loss_id is out of range; got {}, want 0: this strategy has one scale for all losses "
        "(fp16_apex has num_losses scales)",
        name(), loss_id);
}

double Reporter::loss_scale(int loss_id) const {
  check_only_loss(loss_id);
  return 1;
}

Tensor Precision::norm_factor(Optimizer& optimizer) {
  Tensor factor = gradient_factor(optimizer);
  if (!factor.defined()) unscale(optimizer);
  return factor;
}

void Precision::check_options(const ScaleLossOptions& options) const {
  check_only_loss(options.loss_id);
  check(!options.delay_overflow_check,
        "{}: delay_overflow_check: not supported; want fp16_apex with num_losses > 1", name());
}

LossPass Precision::begin_loss(const LossStart& start) {
  check_options(start.options);
  return {};
}

}  // namespace booster
