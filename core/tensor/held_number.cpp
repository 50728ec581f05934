#include "core/tensor/held_number.h"

#include "platform/error.h"

#include <cfloat>
#include <cmath>

namespace booster {
namespace {

struct Range {
  double least, most;
};

Range range_of(DType dtype) {
  const auto both_signs = [](double most) { return Range{-most, most}; };
  switch (dtype) {
    case DType::f32: return both_signs(FLT_MAX);
    case DType::f16: return both_signs(0x1.FFCp15);
    case DType::bf16: return both_signs(0x1.FEp127);
    case DType::i32: return {-0x1p31, 0x1p31 - 1};
    case DType::i64: return {-0x1p63, 0x1.FFFFFFFFFFFFFp62};  // the largest double below 2^63
    case DType::u8: return {0, 255};
    case DType::f64:
    case DType::boolean: break;
  }
  return both_signs(INFINITY);
}

}  // namespace

void check_held(const char* op, double number, DType dtype) {
  const Range range = range_of(dtype);
  const bool is_special = is_floating(dtype) && !std::isfinite(number);
  const double kept = is_floating(dtype) ? number : std::trunc(number);
  if (is_special || dtype == DType::boolean || (number >= range.least && kept <= range.most))
    return;
  fail("{}: the number is outside the dtype's range; got {} for {}, want {} to {}", op, number,
       name_of(dtype), range.least, range.most);
}

void check_fill(const char* op, double number, DType dtype) {
  if (!is_16_bit(dtype)) check_held(op, number, dtype);
}

}  // namespace booster
