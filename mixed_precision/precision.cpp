#include "mixed_precision/precision.h"

namespace booster {

void Precision::begin_loss(const ScaleLossOptions& options, const Optimizers&) {
  check(options.loss_id == 0,
        "{}: loss_id is out of range; got {}, want 0: it has one scale for all losses (fp16_apex "
        "has as many as num_losses says)",
        name(), options.loss_id);
  check(!options.delay_overflow_check,
        "{}: delay_overflow_check: no such choice here; want fp16_apex with num_losses > 1",
        name());
}

}  // namespace booster
