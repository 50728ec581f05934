// What the numbers of a tensor look like: counts of nan, inf and zeros, extremes, and how many of
// them a 16-bit float could not hold. Tensors of any floating dtype on any device; they are read
// on the host. Pure functions, for any thread.
#pragma once

#include "core/tensor/tensor.h"

#include <cstdint>

namespace booster::numerics {

struct Statistics {
  int64_t numel = 0, nans = 0, infs = 0, zeros = 0;
  // Running comparisons from the first element, as paddle.amp.debugging has them: a nan in first
  // place stays, later ones are passed over. The mean is nan where one is present.
  double max = 0, min = 0, mean = 0;
  double magnitude = 0;   // largest one that is finite
  int64_t above_f16 = 0;  // finite, but infinite in f16
  int64_t below_f16 = 0;  // not 0, but 0 in f16

  bool finite() const { return nans + infs == 0; }
};
Statistics statistics_of(const Tensor& x);

// True unless a number is inf or nan; integers are. One pass at memory speed.
bool is_finite(const Tensor& x);

// Bounds of rounding to nearest even: from the first on, magnitudes become infinite; up to the
// second, they become 0.
inline constexpr double f16_overflows_from = 65520;
inline constexpr double f16_underflows_to = 0x1p-25;
inline constexpr double f16_largest = 65504;

// Distance between x and the next number of that dtype away from 0 (f16 or bf16).
double unit_in_last_place(double x, DType dtype);

// "f16 (8, 192): 3 nan, 1 inf, largest finite 512"
std::string describe(const Tensor& x, const Statistics& statistics);

}  // namespace booster::numerics
