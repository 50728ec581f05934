// A mean in two numbers of the compute type. Numbers may be closer to each other than the spacing
// of that type near their mean. A mean rounded to one number is then too inexact for distances.
#pragma once

#include "kernels/launch/launch.h"

namespace booster::kernels::BOOSTER_VARIANT {

// x - center is exact for x near the mean; (x - center) - rest is the distance from the mean.
template <class C>
struct Mean {
  C center, rest;

  Mean() = default;
  KERNEL_FN Mean(C center_, C rest_) : center(center_), rest(rest_) {}
  KERNEL_FN explicit Mean(double whole) : center(C(whole)), rest(C(whole - double(center))) {
    if (rest != rest) rest = C(0);  // of an infinite mean
  }
  // Returns the origin plus the mean distance from it. An origin among the numbers keeps rounding
  // errors as small as their spread, and makes the mean of equal numbers exact.
  KERNEL_FN static Mean from(C origin, double distance) { return Mean(double(origin) + distance); }

  KERNEL_FN double whole() const { return double(center) + double(rest); }
};

// Returns true if numbers of this mean and variance, both rounded to C, are far from zero. The
// mean's rounding errors are then not small compared to the numbers' spread. Both must then be
// computed again, from an origin among the numbers.
template <class C>
KERNEL_FN bool is_far_from_zero(C mean, C variance) {
  constexpr C highest = sizeof(C) == 4 ? C(__FLT_MAX__) : C(__DBL_MAX__);
  return !(mean * mean * C(0x1p-12) <= variance && variance <= highest);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
