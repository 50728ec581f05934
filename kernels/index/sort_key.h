// Values as unsigned integer keys of the same order, so that every device sorts integers in the
// same way.
#pragma once

#include "kernels/numbers/convert.h"

namespace booster::kernels::BOOSTER_VARIANT {

// Returns the bits of the keys of a dtype.
KERNEL_FN constexpr int key_bits(DType dtype) {
  return dtype == DType::f64 || dtype == DType::i64 ? 64 : 32;
}
// Returns is_floating() of view.h, on every device.
KERNEL_FN constexpr bool has_float_key(DType dtype) { return dtype <= DType::bf16; }

// Returns the key. Negative numbers are ordered by their complement. -0 has the key of 0, and every
// nan the largest key.
KERNEL_FN uint64_t sort_key(double x) {
  if (x != x) return ~uint64_t{0};
  const uint64_t bits = __builtin_bit_cast(uint64_t, x + 0.0), sign = uint64_t{1} << 63;
  return bits & sign ? ~bits : bits | sign;
}
KERNEL_FN uint64_t sort_key(float x) {
  if (x != x) return 0xFFFFFFFF;
  const uint32_t bits = float_to_bits(x + 0.0f), sign = 0x80000000;
  return bits & sign ? ~bits : bits | sign;
}
KERNEL_FN uint64_t sort_key(int64_t x) {
  return uint64_t(x) ^ uint64_t { 1 } << 63;
}

// Returns the key of element i of a run, inverted if `descending`.
KERNEL_FN uint64_t sort_key_of(const void* run, DType dtype, int64_t i, bool descending) {
  uint64_t key;
  if (dtype == DType::f64)
    key = sort_key(load_any<double>(run, dtype, i));
  else if (has_float_key(dtype))
    key = sort_key(load_any<float>(run, dtype, i));
  else if (dtype == DType::i64)
    key = sort_key(load_any<int64_t>(run, dtype, i));
  else
    key = uint64_t(load_any<int64_t>(run, dtype, i) + 0x80000000);
  return descending ? (key_bits(dtype) == 64 ? ~key : 0xFFFFFFFF - key) : key;
}

}  // namespace booster::kernels::BOOSTER_VARIANT
