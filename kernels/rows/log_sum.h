// The logarithm of a sum of exponentials, stored relative to the largest term. With logits of
// 10,000 an f32 keeps three decimals, and losses need more. With a logit of 1e20 not even an f64
// can hold the logarithm of the number of terms as well.
#pragma once

#include "kernels/launch/launch.h"

namespace booster::kernels::BOOSTER_VARIANT {

// The largest term, and the logarithm of the sum relative to it. A difference from their sum then
// keeps all of C's digits. In memory it is a row of two.
template <class C>
struct LogSum {
  C largest, more;
  // their sum - x
  KERNEL_FN C above(C x) const { return (largest - x) + more; }
};

}  // namespace booster::kernels::BOOSTER_VARIANT
