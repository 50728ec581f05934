// Dot products of a few rows of f32 with rows of any floating dtype, whose numbers are widened in
// registers: what reads a weight or cached keys once, in order, as fast as memory delivers them.
//
// Each dot product is summed by one vector of partial sums, so its bits depend on its two rows
// alone, not on how many others are computed with it.
#pragma once

#include "kernels/launch/workspace.h"
#include "kernels/products/tile.h"

#include <string.h>

namespace booster::kernels::BOOSTER_VARIANT::tile {

// How numbers are read. A step is `vectors` vectors of f32, in whose order both rows lie.
template <class T>
struct WideStep {
  static constexpr int vectors = 1;
  KERNEL_FN static void read(const T* row, Vector<float> (&wide)[1]) { wide[0] = load_vector(row); }
};
// Pairs of bf16 become two vectors: the even numbers and the odd ones.
template <>
struct WideStep<bf16> {
  static constexpr int vectors = 2;
  KERNEL_FN static void read(const bf16* row, Vector<float> (&wide)[2]) {
    const auto* numbers = reinterpret_cast<const uint32_t*>(row);
    const Vector<uint32_t> pairs = vector_anywhere(const_cast<uint32_t*>(numbers));
    wide[0] = (Vector<float>)(pairs << 16);
    wide[1] = (Vector<float>)(pairs & 0xFFFF0000);
  }
};
template <class T>
constexpr int64_t wide_step = WideStep<T>::vectors* lanes<float>;

// Rows of n numbers `stride` apart, as WideStep reads them, padded with zeros to whole steps.
struct WideRows {
  const float* data;
  int64_t stride;
};
template <class T>
int64_t padded_to_steps(int64_t n) {
  return (n + wide_step<T> - 1) / wide_step<T> * wide_step<T>;
}
// Writes one such row; neighbours of `row` are `apart` elements apart.
template <class T>
void widen_row(float* wide_row, const T* row, int64_t apart, int64_t n) {
  constexpr int vectors = WideStep<T>::vectors;
  for (int64_t at = 0; at < n; at += wide_step<T>) {
    alignas(64) T part[wide_step<T>] = {};
    const int64_t count = n - at < wide_step<T> ? n - at : wide_step<T>;
    const bool whole = apart == 1 && count == wide_step<T>;
    if (!whole)
      for (int64_t i = 0; i < count; ++i) part[i] = row[(at + i) * apart];
    Vector<float> wide[vectors];
    WideStep<T>::read(whole ? row + at : part, wide);
    FOR_TILE (v, vectors) vector_at(wide_row + at + v * lanes<float>) = wide[v];
  }
}

template <class T, int rows, int columns>
KERNEL_FN void add_dot_step(Vector<float> (&sum)[rows][columns], const float* left,
                            int64_t left_stride, const T* right, int64_t right_stride) {
  constexpr int vectors = WideStep<T>::vectors;
  FOR_TILE (c, columns) {
    Vector<float> wide[vectors];
    WideStep<T>::read(right + c * right_stride, wide);
    FOR_TILE (v, vectors)
      FOR_TILE (r, rows)
        sum[r][c] += wide[v] * load_vector(left + r * left_stride + v * lanes<float>);
  }
}

// sums[r * sums_stride + c] = row r of left * row c of right, over n numbers. While it reads, it
// fetches what lies `ahead` elements further.
template <class T, int rows, int columns>
KERNEL_FN void dot_tile(float* sums, int64_t sums_stride, WideRows left, const T* right,
                        int64_t right_stride, int64_t n, int64_t ahead) {
  Vector<float> sum[rows][columns];
  clear<float>(sum);
  int64_t at = 0;
  for (; at + wide_step<T> <= n; at += wide_step<T>) {
    FOR_TILE (c, columns) __builtin_prefetch(right + c * right_stride + at + ahead, 0, 2);
    add_dot_step<T>(sum, left.data + at, left.stride, right + at, right_stride);
  }
  if (at < n) {
    alignas(64) T last[columns][wide_step<T>] = {};
    FOR_TILE (c, columns)
      memcpy(last[c], right + c * right_stride + at, size_t(n - at) * sizeof(T));
    add_dot_step<T>(sum, left.data + at, left.stride, last[0], wide_step<T>);
  }
  FOR_TILE (r, rows)
    FOR_TILE (c, columns) sums[r * sums_stride + c] = sum_of_lanes<float>(sum[r][c]);
}

// Rows that share one pass over the other side: more would not fit the registers.
constexpr int most_dot_rows = 8;
constexpr int dot_columns(int rows) {
  if (!many_registers) return rows <= 2 ? 4 : rows <= 4 ? 2 : 1;
  return rows <= 6 ? 4 : 2;
}

// As dot_tile for any number of columns.
template <class T, int rows>
void dot_rows(float* sums, int64_t sums_stride, WideRows left, const T* right, int64_t right_stride,
              int64_t columns, int64_t n, int64_t ahead) {
  constexpr int wide = dot_columns(rows);
  int64_t c = 0;
  for (; c + wide <= columns; c += wide)
    dot_tile<T, rows, wide>(sums + c, sums_stride, left, right + c * right_stride, right_stride, n,
                            ahead);
  for (; c < columns; ++c)
    dot_tile<T, rows, 1>(sums + c, sums_stride, left, right + c * right_stride, right_stride, n,
                         ahead);
}

}  // namespace booster::kernels::BOOSTER_VARIANT::tile
