// Schedules with a warm-up, by the formulae of Hugging Face's transformers and of timm. As in
// lr_scheduler.h, `base` is a group's rate when the scheduler was made, and t counts steps from 0.
#pragma once

#include "core/optim/schedules/lr_scheduler.h"

namespace booster {

// Warm-up base t / warmup_steps, then linearly to 0 at total_steps. Hugging Face's
// get_linear_schedule_with_warmup.
struct LinearScheduleOptions {
  int64_t warmup_steps = 0;  // at most total_steps
  int64_t total_steps = 0;   // >= 1
};
class LinearScheduleWithWarmup : public LRScheduler {
 public:
  LinearScheduleWithWarmup(Optimizer optimizer, const LinearScheduleOptions& options);
};

// The same warm-up, then base max(0, (1 + cos(2 pi num_cycles s)) / 2), s = (t - warmup_steps) /
// (total_steps - warmup_steps). Hugging Face's get_cosine_schedule_with_warmup.
struct CosineScheduleOptions {
  int64_t warmup_steps = 0;  // at most total_steps
  int64_t total_steps = 0;   // >= 1
  double num_cycles = 0.5;
};
class CosineScheduleWithWarmup : public LRScheduler {
 public:
  CosineScheduleWithWarmup(Optimizer optimizer, const CosineScheduleOptions& options);
};

// timm's CosineLRScheduler. The warm-up rises linearly from warmup_lr_init to base. Then, in cycle
// i = floor(t / t_initial), at u = t - i t_initial, the rate is
//   lr_min + (base cycle_decay^i - lr_min) (1 + cos(pi u^k_decay / t_initial^k_decay)) / 2,
// and lr_min after cycle_limit cycles. Cycle i is t_initial cycle_mul^i long; the formulae above
// are for cycle_mul 1. With warmup_prefix, t counts from the end of the warm-up. With
// steps_per_epoch, all counts are in epochs and the rate is constant within an epoch: timm's
// t_in_epochs.
struct TimmCosineOptions {
  int64_t t_initial = 0;  // >= 1
  double lr_min = 0;
  double cycle_mul = 1;  // >= 1
  double cycle_decay = 1;
  int64_t cycle_limit = 1;
  int64_t warmup_t = 0;
  double warmup_lr_init = 0;
  bool warmup_prefix = false;
  double k_decay = 1;
  int64_t steps_per_epoch = 0;  // 0: counts are in steps
};
class TimmCosineLR : public LRScheduler {
 public:
  TimmCosineLR(Optimizer optimizer, const TimmCosineOptions& options);
};

}  // namespace booster
