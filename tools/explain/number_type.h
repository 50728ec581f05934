// The dtypes in questions about other systems. They include some that our tensors do not have (fp8,
// complex numbers, small integers), with torch's promotion between them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace booster {

enum class NumberType : uint8_t {
  none,  // a result that is not a tensor
  boolean,
  u8,
  i8,
  i16,
  i32,
  i64,
  f8_e4m3,
  f8_e5m2,
  f16,
  bf16,
  f32,
  f64,
  c32,
  c64,
  c128,
};

// Returns "f16", "bool", "none".
const char* name_of(NumberType type);
// Accepts our names and torch's: f16, half, float16, torch.float16, cuda.HalfTensor's "Half".
// Throws with the nearest name for any other.
NumberType number_type_named(const std::string& name);

// Returns true for real floating dtypes, including fp8.
bool is_floating(NumberType type);
bool is_8_bit_float(NumberType type);
bool is_16_bit_float(NumberType type);
bool is_complex(NumberType type);

// Returns the dtype to which these dtypes promote, as in torch (none if there are no tensors). f16
// with bf16 gives f32. Throws for an fp8 dtype with another floating one.
NumberType promoted(std::span<const NumberType> types);

// Returns the complex dtype with parts of this type. Throws if there is none.
NumberType complex_of(NumberType type);

}  // namespace booster
