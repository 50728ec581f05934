// Products of 8-bit floats by cuBLASLt, on GPUs that have units for them (compute capability 8.9).
#pragma once

#include "kernels/arguments/fp8.h"
#include "kernels/arguments/view.h"

namespace booster::kernels::cuda {

// A factor as the library takes it: `sides` runs of `depth` codes, which are multiplied with each
// other, `depth` bytes apart and 16-byte aligned.
struct Fp8Factor {
  const void* codes;
  Fp8Format format;
  int64_t sides, depth;
  const float* inverse_scale;  // on the device
};

inline constexpr int64_t fp8_alignment = 16;  // bytes, of addresses and of depth

// Whether library_fp8_product does it; asks for neither codes nor scales.
bool has_library_fp8_product(const View& y, const Fp8Factor& a, const Fp8Factor& b,
                             const View& bias);
// y (a.sides, b.sides) = a b^T with both scales + bias, rounded once. Sums are in f32; the factor
// of both scales is, too. y is contiguous; bias has y's dtype, of 16 bits, or is absent. False if
// the library is missing or has no way for it: nothing was computed.
bool library_fp8_product(const View& y, const Fp8Factor& a, const Fp8Factor& b, const View& bias);

}  // namespace booster::kernels::cuda
