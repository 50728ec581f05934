// Products of 8-bit floats on the CPU, computed in bf16, which represents all of them, with sums in
// f32. The result equals a hardware fp8 unit's, up to the order of the sums.
#include "kernels/catalogue.h"
#include "kernels/cpu/primitive.h"

namespace booster::kernels::cpu {
namespace {

// Decodes into the layout of the codes, which has no gaps.
View decoded(ScratchUse use, const View& codes, Fp8Format format) {
  View numbers = codes;
  numbers.dtype = DType::bf16;
  numbers.data = scratch(use, static_cast<size_t>(codes.size() * size_of(DType::bf16)));
  on({}).fp8_decode(numbers, codes, format);
  return numbers;
}

}  // namespace

void fp8_matmul(View y, View a, Fp8Format format_a, View b, Fp8Format format_b, View bias,
                const float* inverse_a, const float* inverse_b) {
  const View left = decoded(ScratchUse::decoded_left, a, format_a);
  const View right = decoded(ScratchUse::decoded_right, b, format_b);
  const View sums =
      y.dtype == DType::f32 ? y : scratch_view(ScratchUse::decoded_result, DType::f32, y);
  on({}).matmul(sums, left, right, 0);
  on({}).fp8_result(y, sums, bias, inverse_a, inverse_b);
}

}  // namespace booster::kernels::cpu
