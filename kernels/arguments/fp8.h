// 8-bit floats as plain data: the two formats, and the rules that derive their scales from the
// values. A tensor of 8-bit floats is a u8 tensor of codes plus one f32 scale; an element is
// value(code) / scale. Formats: OCP 8-bit Floating Point Specification (OFP8).
#pragma once

#include "kernels/arguments/view.h"

namespace booster {

enum class Fp8Format : uint8_t {
  e4m3,  // 4 exponent bits, bias 7; no infinity, nan is 0x7F
  e5m2,  // 5 exponent bits, bias 15; f16 without its last 8 bits
};
constexpr float largest(Fp8Format format) { return format == Fp8Format::e4m3 ? 448 : 57344; }
// Bounds of rounding. Magnitudes up to underflows_to become 0; magnitudes from overflows_from on
// exceed the largest finite value.
constexpr double underflows_to(Fp8Format format) {
  return format == Fp8Format::e4m3 ? 0x1p-10 : 0x1p-17;
}
constexpr double overflows_from(Fp8Format format) {
  return format == Fp8Format::e4m3 ? 464 : 61440;
}
constexpr const char* name_of(Fp8Format format) {
  return format == Fp8Format::e4m3 ? "e4m3" : "e5m2";
}

namespace kernels {

// Rounding of a number to a code: to nearest even; a nan stays nan. A number beyond the range
// becomes the largest one. Without saturation it becomes infinity in e5m2, and nan in e4m3.
struct Fp8Cast {
  Fp8Format format = Fp8Format::e4m3;
  bool saturate = true;
};

// The scales of some tensors of one format and the data that determine them, on the device.
struct Fp8Scales {
  float* amax;        // (tensors): largest magnitude seen in this pass; negative: none
  float* scale;       // (tensors)
  float* history;     // (tensors, length): the amaxes of the last passes, a ring
  int32_t* cursor;    // (tensors): position of the next amax in the ring
  float* non_finite;  // one element: becomes 1 if an amax is infinite
  int64_t tensors;
  int64_t length;
};

// Delayed scaling (NVIDIA Transformer Engine): scale = (largest / amax) / 2^margin, where amax is
// the most recent one or the largest in the history.
struct Fp8DelayedRule {
  float largest;        // of the format
  float margin_factor;  // 2^margin
  bool most_recent;
};

// Current scaling: scale = largest / max(amax, eps) of the tensor itself.
struct Fp8CurrentRule {
  float largest;  // of the format
  float eps;
  bool power_of_two;  // rounds the scale down to a power of two
  float limit;        // replaces an overflowing scale: the largest value of the input's dtype
};

}  // namespace kernels
}  // namespace booster
