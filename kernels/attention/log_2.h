// Scores in units of log 2, so that their exponentials are powers of 2.
#pragma once

#include "kernels/launch/launch.h"

namespace booster::kernels::BOOSTER_VARIANT {

inline constexpr double log2_e = 1.4426950408889634;
inline constexpr double ln_2 = 0.69314718055994531;

// Returns a mask's term in units of log 2; a finite term stays finite. Programs hide keys with the
// lowest finite number. It must hide all keys of a row equally, and not leave a row without keys.
// (The test uses the term: g++ 14 infers from an infinite product that the term was infinite.)
template <class Number>
KERNEL_FN Number in_log_2(Number term) {
  constexpr Number most = sizeof(Number) == 4 ? Number(__FLT_MAX__) : Number(__DBL_MAX__);
  constexpr Number limit = most * Number(0.693);  // a little below most * ln_2
  const Number product = term * Number(log2_e);
  const Number below = term > limit && term <= most ? most : product;
  return term < -limit && term >= -most ? -most : below;
}

}  // namespace booster::kernels::BOOSTER_VARIANT
