// 16-bit floats, rounded to nearest even, as the emulated NVIDIA libraries read and write them.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>

namespace cuda_on_host {

// Does not use _Float16: the compiler would widen it to double with a call if double is wanted.
inline float from_f16(uint16_t bits) { return _cvtsh_ss(bits); }
inline float from_bf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
inline uint16_t to_f16(float value) {
  return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
}
inline uint16_t to_bf16(float value) {
  if (value != value) return 0x7FFF;
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

}  // namespace cuda_on_host
