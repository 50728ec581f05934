// The logarithm of a sum of exponentials beside the numbers that it is of: logits of 10,000 leave
// f32 three digits behind the point, and losses want more.
#pragma once

#include "kernels/launch.h"

#include <cmath>

namespace booster::kernels::BOOSTER_VARIANT {

// log_sum in two parts of type C, so that a difference from it keeps all of C's digits.
template <class C>
struct LogSum {
  C high, low;
  KERNEL_FN LogSum(double log_sum) : high(static_cast<C>(log_sum)), low(0) {
    const double rest = log_sum - static_cast<double>(high);
    if (rest == rest) low = static_cast<C>(rest);  // not of an infinite one
  }
  // log_sum - x
  KERNEL_FN C above(C x) const { return (high - x) + low; }
};

}  // namespace booster::kernels::BOOSTER_VARIANT
