// The logarithm of a sum of exponentials beside the numbers that it is of: logits of 10,000 leave
// f32 three digits behind the point, and losses want more; beside one of 1e20 not even an f64 has
// room for the logarithm of how many there are.
#pragma once

#include "kernels/launch/launch.h"

namespace booster::kernels::BOOSTER_VARIANT {

// The largest number and the logarithm of the sum relative to it, so that a difference from their
// sum keeps all of C's digits. In memory it is a row of two.
template <class C>
struct LogSum {
  C largest, more;
  // their sum - x
  KERNEL_FN C above(C x) const { return (largest - x) + more; }
};

}  // namespace booster::kernels::BOOSTER_VARIANT
