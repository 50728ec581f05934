// Products of 8-bit floats on a GPU: by cuBLASLt, straight from the codes, or in bf16, which holds
// every one of them. Sums are in f32.
#include "kernels/numbers/convert.h"
#include "kernels/cuda/catalogue.h"
#include "kernels/cuda/products/library_fp8_product.h"
#include "kernels/workspace.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

using ::booster::kernels::cuda::fp8_alignment;
using ::booster::kernels::cuda::Fp8Factor;

constexpr int tile_codes = 64;               // sides and depths of a tile
constexpr int tile_stride = tile_codes + 4;  // columns of a tile are in different banks

// Codes (sides, depth) of a factor, with the reciprocal of their scale.
struct Codes {
  View view;
  Fp8Format format;
  const float* inverse_scale;
  int64_t sides() const { return view.shape[0]; }
  int64_t depth() const { return view.shape[1]; }
  int64_t padded_depth() const {
    return (depth() + fp8_alignment - 1) / fp8_alignment * fp8_alignment;
  }
  // True if the library can read them as they lie.
  bool is_ready() const {
    return view.contiguous() && depth() == padded_depth() &&
           reinterpret_cast<uintptr_t>(view.data) % fp8_alignment == 0;
  }
  int64_t bytes_of_copy() const { return is_ready() ? 0 : sides() * padded_depth(); }
  Fp8Factor factor() const { return {view.data, format, sides(), padded_depth(), inverse_scale}; }
};

View transposed_codes(View codes) {
  for (int64_t* of : {codes.shape, codes.strides}) {
    const int64_t first = of[0];
    of[0] = of[1];
    of[1] = first;
  }
  return codes;
}

// The code of 0 fills what is added to the depth. Both sides of a copy are read and written in
// runs.
void copy_turned(uint8_t* to, const Codes& codes) {
  const auto* from = codes.view.as<uint8_t>();
  const int64_t sides = codes.sides(), depth = codes.depth(), padded = codes.padded_depth();
  const int64_t across = (sides + tile_codes - 1) / tile_codes;
  const int64_t down = (padded + tile_codes - 1) / tile_codes;
  for_each_block(across * down, [=] ON_DEVICE(int64_t block) {
    SHARED(uint8_t, tile, tile_codes * tile_stride);
    const int64_t side = block % across * tile_codes, first = block / across * tile_codes;
    for_each_lane(tile_codes * tile_codes, [&](int64_t i) {
      const int64_t d = i / tile_codes, s = i % tile_codes;
      const bool is_inside = side + s < sides && first + d < depth;
      tile[d * tile_stride + s] = is_inside ? from[(first + d) * sides + side + s] : uint8_t{0};
    });
    __syncthreads();
    for_each_lane(tile_codes * tile_codes, [&](int64_t i) {
      const int64_t s = i / tile_codes, d = i % tile_codes;
      if (side + s < sides && first + d < padded)
        to[(side + s) * padded + first + d] = tile[d * tile_stride + s];
    });
  });
}

void copy_padded(uint8_t* to, const Codes& codes) {
  const auto* from = codes.view.as<uint8_t>();
  const int64_t depth = codes.depth(), padded = codes.padded_depth();
  for_each_item(codes.sides() * padded, [=] ON_DEVICE(int64_t i) {
    const int64_t d = i % padded;
    to[i] = d < depth ? from[i / padded * depth + d] : uint8_t{0};
  });
}

Fp8Factor prepared(uint8_t* room, const Codes& codes) {
  Fp8Factor factor = codes.factor();
  if (codes.is_ready()) return factor;
  codes.view.contiguous() ? copy_padded(room, codes) : copy_turned(room, codes);
  factor.codes = room;
  return factor;
}

bool multiply_codes(const View& y, const Codes& a, const Codes& b, const View& bias) {
  if (!has_library_fp8_product(y, a.factor(), b.factor(), bias)) return false;
  const Workspace<uint8_t> room_a(a.bytes_of_copy()), room_b(b.bytes_of_copy());
  return library_fp8_product(y, prepared(room_a.data(), a), prepared(room_b.data(), b), bias);
}

// In the codes' layout, which has no gaps.
View decoded(void* memory, const View& codes, Fp8Format format) {
  View numbers = codes;
  numbers.dtype = DType::bf16;
  numbers.data = memory;
  fp8_decode(numbers, codes, format);
  return numbers;
}

void multiply_decoded(const View& sums, const Codes& a, const Codes& b) {
  const Workspace<bf16> left(a.view.size()), right(b.view.size());
  const View columns = decoded(right.data(), b.view, b.format);
  matmul(sums, decoded(left.data(), a.view, a.format), transposed_codes(columns), 0);
}

}  // namespace

// A bias of another dtype than y's is added to the sums.
void fp8_matmul(View y, View a, Fp8Format format_a, View b, Fp8Format format_b, View bias,
                const float* inverse_a, const float* inverse_b) {
  const Codes left = {a, format_a, inverse_a}, right = {transposed_codes(b), format_b, inverse_b};
  if (multiply_codes(y, left, right, bias)) return;
  const bool is_wide = y.dtype == DType::f32;
  const Workspace<float> wide(is_wide ? 0 : y.size());
  View sums = y;
  sums.dtype = DType::f32;
  if (!is_wide) sums.data = wide.data();
  const Codes a_alone = {left.view, format_a, nullptr}, b_alone = {right.view, format_b, nullptr};
  if (!multiply_codes(sums, a_alone, b_alone, {})) multiply_decoded(sums, left, right);
  fp8_result(y, sums, bias, inverse_a, inverse_b);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
