// Conversion to and from 8-bit floats. Rounding is to nearest even, keeps subnormals, and gives the
// same bits on every variant and device; no branches, so loops over these functions vectorise.
#pragma once

#include "kernels/arguments/fp8.h"
#include "kernels/numbers/convert.h"

namespace booster::kernels::BOOSTER_VARIANT {

// The differences between the two formats, as f32 bits.
template <Fp8Format format>
struct Fp8Bits {
  static constexpr bool e4m3 = format == Fp8Format::e4m3;
  static constexpr int mantissa = e4m3 ? 3 : 2;
  static constexpr int shift = 23 - mantissa;  // of an f32's fields into a code
  static constexpr uint32_t rebias = (127 - (e4m3 ? 7 : 15)) << 23;
  static constexpr uint32_t smallest_normal = rebias + (1 << 23);
  static constexpr uint32_t largest = e4m3 ? 0x43E00000 : 0x47600000;  // 448, 57344
  static constexpr float last_place = e4m3 ? 0x1p14f : 0x1p7f;  // ulp: the smallest subnormal
  static constexpr float magnify = e4m3 ? 0x1p120f : 0x1p112f;
  static constexpr uint32_t special = e4m3 ? 0x7F : 0x7C;  // codes from this on: inf and nan
};

// Rounds normal results by integer arithmetic on the bits. For subnormal results, adds a number
// whose unit in the last place is the smallest subnormal; the low bits are then the result. Without
// saturation, results beyond the largest number become infinity, or nan in e4m3.
template <Fp8Format format, bool saturate>
KERNEL_FN uint8_t to_fp8(float x) {
  using Bits = Fp8Bits<format>;
  const uint32_t bits = float_to_bits(x);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  const uint32_t kept = saturate && magnitude > Bits::largest ? Bits::largest : magnitude;
  const uint32_t half = (1u << (Bits::shift - 1)) - 1 + ((kept >> Bits::shift) & 1);
  const uint32_t normal = (kept - Bits::rebias + half) >> Bits::shift;
  const uint32_t subnormal =
      float_to_bits(bits_to_float(kept) + Bits::last_place) - float_to_bits(Bits::last_place);
  const uint32_t finite = kept < Bits::smallest_normal ? subnormal : normal;
  const uint32_t limited = !saturate && finite > Bits::special ? Bits::special : finite;
  const uint32_t code = magnitude > 0x7F800000 ? 0x7F : limited;
  return static_cast<uint8_t>(code | ((bits >> 24) & 0x80));
}

// Moves a code's fields to f32's positions and multiplies by a power of two, which corrects the
// exponent bias and makes subnormals normal.
template <Fp8Format format>
KERNEL_FN float from_fp8(uint8_t code) {
  using Bits = Fp8Bits<format>;
  const uint32_t magnitude = code & 0x7F;
  const uint32_t finite = float_to_bits(bits_to_float(magnitude << Bits::shift) * Bits::magnify);
  const bool infinite = format == Fp8Format::e5m2 && magnitude == Bits::special;
  const uint32_t special = infinite ? 0x7F800000 : 0x7FC00000;
  return bits_to_float((magnitude >= Bits::special ? special : finite) |
                       (uint32_t(code & 0x80) << 24));
}

}  // namespace booster::kernels::BOOSTER_VARIANT
