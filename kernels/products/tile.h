// Register tiles: small matrix products whose operands are packed in cache.
//
// A matrix is stored in units along the summed dimension. In format `Plain<T>` a unit is one
// number. In format `Bf16Pairs` it is two neighbouring bf16 numbers; the processor multiplies and
// adds them at twice the rate of f32 (vdpbf16ps). The same code serves every vector width.
#pragma once

#include "kernels/numbers/vectors.h"
#include "kernels/walks/transpose.h"

#include <math.h>
#include <stdint.h>
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

// Loops over a tile's registers must unroll completely; otherwise the compiler keeps the tile in
// memory.
#define FOR_TILE(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < n; ++i)

namespace booster::kernels::BOOSTER_VARIANT::tile {

// Returns 2^y, and 0 below the smallest normal number; nan stays nan. It is one unit in the last
// place less accurate than exp_ of math.h. It needs less than half as many instructions, because y
// <= 0 needs no guard against overflow.
KERNEL_FN Vector<float> exp2_of(Vector<float> y) {
  const Vector<float> shifted = y + 12582912.0f;  // its low bits hold the nearest integer
  const Vector<float> f = y - (shifted - 12582912.0f);
  Vector<float> p = 1.53458124e-4f * f + 1.33999309e-3f;
  p = p * f + 9.61848907e-3f;
  p = p * f + 5.55032864e-2f;
  p = p * f + 2.40226462e-1f;
  p = p * f + 6.93147182e-1f;
  p = p * f + 1.0f;
  const Vector<uint32_t> bits = (Vector<uint32_t>)p + ((Vector<uint32_t>)shifted << 23);
  return y < -126.0f ? Vector<float>{} : (Vector<float>)bits;
}
KERNEL_FN Vector<double> exp2_of(Vector<double> y) {
  for (int i = 0; i < lanes<double>; ++i) y[i] = ::exp2(y[i]);
  return y;
}

template <class T>
KERNEL_FN Vector<T> larger(Vector<T> a, Vector<T> b) {
  return a > b ? a : b;
}
template <class T, int by = lanes<T> / 2>
KERNEL_FN T largest_lane(Vector<T> x) {
  if constexpr (by == 0)
    return x[0];
  else
    return largest_lane<T, by / 2>(larger<T>(x, LaneOrders<lanes<T>>::template rotate<by>(x)));
}
template <class T, int by = lanes<T> / 2>
KERNEL_FN T sum_of_lanes(Vector<T> x) {
  if constexpr (by == 0)
    return x[0];
  else
    return sum_of_lanes<T, by / 2>(x + LaneOrders<lanes<T>>::template rotate<by>(x));
}

// Storage of a product's operands; sums and softmax are computed in `Number`.
template <class T>
struct Plain {
  using Number = T;
  using Unit = T;
  static constexpr int per_unit = 1;
  KERNEL_FN static Vector<T> multiply_add(Vector<T> sum, T left, Vector<T> right) {
    return sum + left * right;
  }
  // Stores neighbours in the summed dimension, which share a unit ...
  KERNEL_FN static void store_along(T* units, Vector<T> x) { vector_at(units) = x; }
  // ... or `per_unit` vectors, one per position in the summed dimension.
  KERNEL_FN static void store_across(T* units, const Vector<T>* x) { vector_at(units) = x[0]; }
  static void interleave(T* units, const T* rows, int64_t, int64_t n) {
    for (int64_t i = 0; i < n; ++i) units[i] = rows[i];
  }
};

#ifdef __AVX512BF16__
struct Bf16Pairs {
  using Number = float;
  using Unit = uint32_t;
  static constexpr int per_unit = 2;
  KERNEL_FN static Vector<float> multiply_add(Vector<float> sum, uint32_t left,
                                              Vector<uint32_t> right) {
    return (Vector<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32(int(left)),
                                           (__m512bh)right);
  }
  KERNEL_FN static void store_along(uint32_t* units, Vector<float> x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(units), (__m256i)_mm512_cvtneps_pbh((__m512)x));
  }
  KERNEL_FN static void store_across(uint32_t* units, const Vector<float>* x) {
    alignas(64) static constexpr uint16_t pairs[] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                     21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                     11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh((__m512)x[1], (__m512)x[0]);
    vector_at(units) = (Vector<uint32_t>)_mm512_permutexvar_epi16(_mm512_load_si512(pairs), both);
  }
  // Interleaves two rows, whose pairs are along the row, to one row of pairs across both; n values
  // in each row.
  static void interleave(uint32_t* units, const uint32_t* rows, int64_t stride, int64_t n) {
    const uint32_t* next = rows + stride;
    for (int64_t i = 0; i < n / 2; ++i) {
      units[2 * i] = (rows[i] & 0xFFFF) | next[i] << 16;
      units[2 * i + 1] = rows[i] >> 16 | (next[i] & 0xFFFF0000);
    }
  }
};
#endif

// Keys are packed in panels of this many vectors.
constexpr int panel_vectors = 3;
template <class F>
constexpr int panel_width = panel_vectors* lanes<typename F::Number>;

template <class T, int rows, int columns>
KERNEL_FN void clear(Vector<T> (&sum)[rows][columns]) {
  FOR_TILE (r, rows)
    FOR_TILE (c, columns) sum[r][c] = Vector<T>{};
}

// Left operand of a product: unit (row, step) is at data[row * row_stride + step * step_stride].
template <class F>
struct Left {
  const typename F::Unit* data;
  int64_t row_stride;
  int64_t step_stride;
};

// Adds sum += left x right for a tile that stays in registers; right has `columns` vectors per
// step, `apart` units apart.
template <class F, int rows, int columns>
KERNEL_FN void multiply_add(Vector<typename F::Number> (&sum)[rows][columns], Left<F> left,
                            const typename F::Unit* right, int64_t right_stride, int64_t steps,
                            int64_t apart = lanes<typename F::Unit>) {
  for (int64_t step = 0; step < steps; ++step) {
    Vector<typename F::Unit> b[columns];
    FOR_TILE (c, columns) b[c] = vector_at(right + c * apart);
    FOR_TILE (r, rows)
      FOR_TILE (c, columns)
        sum[r][c] = F::multiply_add(sum[r][c], left.data[r * left.row_stride], b[c]);
    left.data += left.step_stride;
    right += right_stride;
  }
}

template <int n>
struct Count {
  static constexpr int value = n;
};

// Calls body with the number of remaining vectors, at most `most`, as a constant.
template <int most, class Body>
KERNEL_FN void with_vectors(int64_t left, Body&& body) {
  if constexpr (most > 1)
    if (left < most) return with_vectors<most - 1>(left, body);
  body(Count<most>{});
}

// Adds sums (rows, width) += left x right (steps, width), or sets sums if they are new; width is a
// multiple of the vector. It computes whole tiles of rows: left must be readable and sums writable
// for up to `product_rows` - 1 more rows, whose values are meaningless.
constexpr int product_rows = 6;
template <class F>
void add_product(bool fresh, typename F::Number* sums, Left<F> left, const typename F::Unit* right,
                 int64_t rows, int64_t width, int64_t steps) {
  using Number = typename F::Number;
  constexpr int n = lanes<Number>;
  constexpr int most = many_registers ? 4 : 2;
  for (int64_t column = 0; column < width; column += most * n)
    with_vectors<most>((width - column) / n, [&](auto columns) {
      for (int64_t row = 0; row < rows; row += product_rows) {
        Vector<Number> sum[product_rows][columns.value];
        Number* corner = sums + row * width + column;
        clear<Number>(sum);
        if (!fresh)
          FOR_TILE (r, product_rows)
            FOR_TILE (c, columns.value) sum[r][c] = vector_at(corner + r * width + c * n);
        const Left<F> part{left.data + row * left.row_stride, left.row_stride, left.step_stride};
        multiply_add<F>(sum, part, right + column, width, steps);
        FOR_TILE (r, product_rows)
          FOR_TILE (c, columns.value) vector_at(corner + r * width + c * n) = sum[r][c];
      }
    });
}

}  // namespace booster::kernels::BOOSTER_VARIANT::tile
