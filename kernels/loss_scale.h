// The rule by which a loss scale grows and backs off. Plain data.
#pragma once

#include <cstdint>

namespace booster::kernels {

// torch.amp.GradScaler's: a step with found_inf != 0 multiplies the scale by `backoff`; after
// `growth_interval` finite steps in a row it is multiplied by `growth`, unless that overflows.
struct LossScaleRule {
  double growth = 2;
  double backoff = 0.5;
  int64_t growth_interval = 2000;
};

}  // namespace booster::kernels
