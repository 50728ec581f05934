// Consecutive positions of a tensor's dimensions (kernels/walks/space.h).
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/walks/space.h"

namespace booster::kernels::BOOSTER_VARIANT {

// A position that moves forward; it divides only when it leaves the innermost dimension. The space
// must not be empty.
class Cursor {
 public:
  KERNEL_FN Cursor(const Space& space, int64_t i) : space_(space), at_(i) { carry(); }
  KERNEL_FN int64_t offset() const { return base_ + at_ * space_.last_stride(); }
  KERNEL_FN void advance(int64_t step) {
    at_ += step;
    if (space_.ndim > 1 && at_ >= space_.shape[space_.ndim - 1]) carry();
  }

 private:
  KERNEL_FN void carry() {
    if (space_.ndim < 2) return;
    const int64_t inner = space_.shape[space_.ndim - 1], runs = quotient(at_, inner);
    at_ -= runs * inner;
    outer_ += runs;
    base_ = space_.offset_in(space_.ndim - 1, outer_);
  }
  const Space& space_;
  int64_t at_, outer_ = 0, base_ = 0;
};

}  // namespace booster::kernels::BOOSTER_VARIANT
