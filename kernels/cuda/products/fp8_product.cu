// Products of 8-bit floats on a GPU: by cuBLASLt, directly from the codes, or in bf16, which
// represents all of them. Sums are in f32.
#include "kernels/cuda/catalogue.h"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/products/library_fp8_product.h"
#include "kernels/launch/workspace.h"
#include "kernels/numbers/convert.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

using ::booster::kernels::cuda::fp8_alignment;
using ::booster::kernels::cuda::Fp8Factor;

constexpr int tile_codes = 64;  // sides and depths of a tile

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
  // Returns true if the library can read them in place.
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

// The sizes of codes whose sides are adjacent in memory.
struct Turning {
  int64_t sides, depth, padded;
};

// Four words of four codes each. Transposed, word i has the i-th code of each.
struct Square {
  uint32_t word[4];
  __device__ Square turned() const {
    Square other = {};
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) other.word[i] |= (word[j] >> i * 8 & 0xFF) << j * 8;
    return other;
  }
};

// Transposes words with codes of four sides: a thread has four such words at four depths, and
// writes 16 codes of one side.
__device__ inline void turn_words(uint8_t* to, const uint8_t* from, const Turning& of, int64_t side,
                                  int64_t first) {
  constexpr int words = tile_codes / 4, stride = words + 1;
  SHARED(uint32_t, tile, tile_codes * stride);
  const int across = static_cast<int>(threadIdx.x) % words;
  const int down = static_cast<int>(threadIdx.x) / words;
  Square square = {};
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if (const int64_t d = first + down * 4 + j; side + across * 4 < of.sides && d < of.depth)
      square.word[j] = *reinterpret_cast<const uint32_t*>(from + d * of.sides + side + across * 4);
  square = square.turned();
#pragma unroll
  for (int j = 0; j < 4; ++j) tile[(across * 4 + j) * stride + down] = square.word[j];
  __syncthreads();
  const int row = static_cast<int>(threadIdx.x) / 4, part = static_cast<int>(threadIdx.x) % 4 * 4;
  if (side + row >= of.sides || first + part * 4 >= of.padded) return;
  Pack<uint32_t, 4> out;
  out.set(tile + row * stride + part);
  out.store(reinterpret_cast<uint32_t*>(to + (side + row) * of.padded + first + part * 4));
}

__device__ inline void turn_codes(uint8_t* to, const uint8_t* from, const Turning& of, int64_t side,
                                  int64_t first) {
  constexpr int stride = tile_codes + 4;  // columns of a tile are in different banks
  SHARED(uint8_t, tile, tile_codes * stride);
  for_each_lane(tile_codes * tile_codes, [&](int64_t i) {
    const int64_t d = i / tile_codes, s = i % tile_codes;
    const bool is_inside = side + s < of.sides && first + d < of.depth;
    tile[d * stride + s] = is_inside ? from[(first + d) * of.sides + side + s] : uint8_t{0};
  });
  __syncthreads();
  for_each_lane(tile_codes * tile_codes, [&](int64_t i) {
    const int64_t s = i / tile_codes, d = i % tile_codes;
    if (side + s < of.sides && first + d < of.padded)
      to[(side + s) * of.padded + first + d] = tile[d * stride + s];
  });
}

// Copies transposed codes; pads the depth with the code of 0. Both sides of a copy are accessed in
// runs.
void copy_turned(uint8_t* to, const Codes& codes) {
  const auto* from = codes.view.as<uint8_t>();
  const Turning of = {codes.sides(), codes.depth(), codes.padded_depth()};
  const int64_t across = (of.sides + tile_codes - 1) / tile_codes;
  const int64_t down = (of.padded + tile_codes - 1) / tile_codes;
  const bool in_words = of.sides % 4 == 0 && reinterpret_cast<uintptr_t>(from) % 4 == 0;
  for_each_block(across * down, [=] ON_DEVICE(int64_t block) {
    const int64_t side = block % across * tile_codes, first = block / across * tile_codes;
    in_words ? turn_words(to, from, of, side, first) : turn_codes(to, from, of, side, first);
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

// Decodes into the codes' layout, which has no gaps.
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

// Multiplies codes. Adds a bias of another dtype than y's to the f32 sums.
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
