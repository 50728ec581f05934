// Statistics of a tensor's elements: counts of nan, inf and zeros, extremes, and how many elements
// a 16-bit float could not hold. Tensors may have any floating dtype and device; they are read on
// the host. Pure functions, thread-safe.
#pragma once

#include "core/tensor/tensor.h"

#include <cstdint>

namespace booster::numerics {

// Rows of a printed table; the file has all rows.
inline constexpr size_t rows_shown = 24;

// Returns part / whole, or 0 if whole is 0.
inline double share(int64_t part, int64_t whole) {
  return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

struct Statistics {
  int64_t numel = 0, nans = 0, infs = 0, zeros = 0;
  // Running comparisons from the first element, as in paddle.amp.debugging: a leading nan stays,
  // and later ones are ignored. The mean is nan if any element is nan.
  double max = 0, min = 0, mean = 0;
  double magnitude = 0;   // largest finite magnitude
  int64_t above_f16 = 0;  // finite, but infinite in f16
  int64_t below_f16 = 0;  // not 0, but 0 in f16

  bool finite() const { return nans + infs == 0; }
};
Statistics statistics_of(const Tensor& x);

// Returns true if no element is inf or nan; always true for integers. It takes one pass at memory
// speed.
bool is_finite(const Tensor& x);

// Limits of rounding to nearest even. Magnitudes of at least the first become infinite. Magnitudes
// up to the second become 0.
inline constexpr double f16_overflows_from = 65520;
inline constexpr double f16_underflows_to = 0x1p-25;
inline constexpr double f16_largest = 65504;

// Returns the distance between x and the next value of that dtype (f16 or bf16) away from 0.
double unit_in_last_place(double x, DType dtype);

// Returns "f16 (8, 192): 3 nan, 1 inf, largest finite 512"
std::string describe(const Tensor& x, const Statistics& statistics);

}  // namespace booster::numerics
