// Products of 8-bit floats by cuBLASLt, on GPUs that have units for them (compute capability 8.9).
#pragma once

#include "kernels/arguments/fp8.h"
#include "kernels/arguments/view.h"

namespace booster::kernels::cuda {

// A factor in the library's form: `sides` runs of `depth` codes, `depth` bytes apart and 16-byte
// aligned. A product multiplies runs with runs.
struct Fp8Factor {
  const void* codes;
  Fp8Format format;
  int64_t sides, depth;
  const float* inverse_scale;  // on the device
};

inline constexpr int64_t fp8_alignment = 16;  // bytes, of addresses and of depth

// Returns true if library_fp8_product supports this; does not read codes or scales.
bool has_library_fp8_product(const View& y, const Fp8Factor& a, const Fp8Factor& b,
                             const View& bias);
// Computes y (a.sides, b.sides) = a b^T with both scales + bias, rounded once. Sums, and the factor
// of both scales, are in f32. y is contiguous; bias has y's 16-bit dtype, or is absent. Returns
// false, and computes nothing, if the library is missing or does not support it.
bool library_fp8_product(const View& y, const Fp8Factor& a, const Fp8Factor& b, const View& bias);

}  // namespace booster::kernels::cuda
