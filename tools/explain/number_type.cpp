#include "tools/explain/number_type.h"

#include "platform/error.h"

#include <algorithm>
#include <array>
#include <vector>

namespace booster {
namespace {

struct Row {
  NumberType type;
  const char* name;
  std::array<const char*, 4> others;
};

using enum NumberType;
constexpr Row rows[] = {
    {none, "none", {}},
    {boolean, "bool", {"boolean", "b8"}},
    {u8, "u8", {"uint8", "byte"}},
    {i8, "i8", {"int8", "char"}},
    {i16, "i16", {"int16", "short"}},
    {i32, "i32", {"int32", "int"}},
    {i64, "i64", {"int64", "long"}},
    {f8_e4m3, "f8_e4m3", {"float8_e4m3fn", "float8_e4m3", "e4m3", "f8_e4m3fn"}},
    {f8_e5m2, "f8_e5m2", {"float8_e5m2", "e5m2"}},
    {f16, "f16", {"float16", "half", "fp16"}},
    {bf16, "bf16", {"bfloat16"}},
    {f32, "f32", {"float32", "float", "fp32"}},
    {f64, "f64", {"float64", "double", "fp64"}},
    {c32, "c32", {"complex32", "chalf"}},
    {c64, "c64", {"complex64", "cfloat"}},
    {c128, "c128", {"complex128", "cdouble"}},
};

bool is_called(const Row& row, std::string_view name) {
  const auto matches = [&](const char* other) { return other && name == other; };
  return name == row.name || std::any_of(row.others.begin(), row.others.end(), matches);
}

std::string_view without_module(std::string_view name) {
  for (const std::string_view module : {"torch.", "paddle."})
    if (name.starts_with(module)) return name.substr(module.size());
  return name;
}

// Follows torch's order: the larger of two of the same kind; f16 and bf16 promote to f32.
NumberType meet(NumberType a, NumberType b) {
  if (a == b) return a;
  if (is_complex(a) != is_complex(b)) {
    const NumberType complex = is_complex(a) ? a : b, real = is_complex(a) ? b : a;
    return is_floating(real) ? std::max(complex, complex_of(real == bf16 ? f32 : real)) : complex;
  }
  if (is_floating(a) && is_floating(b)) {
    check(!is_8_bit_float(a) && !is_8_bit_float(b),
          "dtypes: fp8 does not promote; got {} with {}, want a cast first", name_of(a),
          name_of(b));
    return is_16_bit_float(a) && is_16_bit_float(b) ? f32 : std::max(a, b);
  }
  const bool bytes = (a == u8 && b == i8) || (a == i8 && b == u8);
  return bytes ? i16 : std::max(a, b);
}

}  // namespace

const char* name_of(NumberType type) { return rows[static_cast<int>(type)].name; }

NumberType number_type_named(const std::string& name) {
  for (const Row& row : rows)
    if (row.type != none && is_called(row, without_module(name))) return row.type;
  std::vector<std::string> legal;
  for (const Row& row : rows)
    if (row.type != none) legal.push_back(row.name);
  fail("dtype: unknown name; got {}{}", name, legal_names(name, legal));
}

bool is_floating(NumberType type) { return type >= f8_e4m3 && type <= f64; }
bool is_8_bit_float(NumberType type) { return type == f8_e4m3 || type == f8_e5m2; }
bool is_16_bit_float(NumberType type) { return type == f16 || type == bf16; }
bool is_complex(NumberType type) { return type >= c32; }

NumberType promoted(std::span<const NumberType> types) {
  NumberType result = none;
  for (const NumberType type : types) result = result == none ? type : meet(result, type);
  return result;
}

NumberType complex_of(NumberType type) {
  if (is_complex(type)) return type;
  check(type == f16 || type == f32 || type == f64, "dtypes: no complex numbers of {}",
        name_of(type));
  return type == f16 ? c32 : type == f32 ? c64 : c128;
}

}  // namespace booster
