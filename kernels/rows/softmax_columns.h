// Softmax, log-softmax and their gradients along a dimension whose neighbours lie `inner` numbers
// apart. A tile of adjacent columns is copied, as the compute type, to a buffer that stays in a
// cache; memory is read and written once, in its order. Tiles depend only on the sizes. For the
// CPU.
#pragma once

#include "kernels/numbers/math.h"
#include "kernels/walks/rows.h"

namespace booster::kernels::BOOSTER_VARIANT::softmax_columns {

inline thread_local Scratch first_buffer, second_buffer;

inline constexpr int64_t lane_group = 16;   // lanes of a tile: a multiple of it
inline constexpr int64_t most_lanes = 512;  // of a tile
inline constexpr int64_t sum_length = 64;   // terms that are summed before they join the total

// (outer, n, inner) around the dimension, found in a view (..., n) whose last stride is `inner`.
struct Layout {
  int64_t n, inner, outer, width, across;

  explicit Layout(const View& x)
      : n(x.columns()), inner(x.strides[x.ndim - 1]), outer(x.size() / (n * inner)) {
    width = 32768 / n / lane_group * lane_group;
    width = width < 4 * lane_group ? 4 * lane_group : width;
    width = width > most_lanes ? most_lanes : width;
    width = width > inner ? inner : width;
    across = (inner + width - 1) / width;
  }
  static bool is_for(const View& x) {
    return x.ndim > 0 && x.columns() > 1 && x.strides[x.ndim - 1] > 1 && x.size() > 0;
  }
};

// Adjacent columns, and the number of lanes that hold them.
struct Tile {
  const Layout& layout;
  int64_t first, columns, lanes;

  Tile(const Layout& all, int64_t i) : layout(all) {
    const int64_t column = i % all.across * all.width, left = all.inner - column;
    first = i / all.across * all.n * all.inner + column;
    columns = left < all.width ? left : all.width;
    lanes = (columns + lane_group - 1) / lane_group * lane_group;
  }
  template <class C>
  void read(C* row, const View& x, int64_t i) const {
    const int64_t at = first + i * layout.inner;
    load_run(row, x.as<const char>() + at * size_of(x.dtype), x.dtype, 1, columns);
    for (int64_t c = columns; c < lanes; ++c) row[c] = C(0);
  }
  template <class C>
  void write(const View& y, int64_t i, const C* row) const {
    const int64_t at = first + i * layout.inner;
    store_run(y.as<char>() + at * size_of(y.dtype), y.dtype, 1, row, columns);
  }
  // sums[c] = the sum of term(i, c) over all i. A term may write to memory.
  template <class C, class Term>
  void sum(C* sums, Term&& term) const {
    alignas(64) C part[most_lanes];
    const int64_t width = lanes;
    for (int64_t c = 0; c < width; ++c) sums[c] = C(0);
    for (int64_t begin = 0; begin < layout.n; begin += sum_length) {
      const int64_t left = layout.n - begin, end = begin + (left < sum_length ? left : sum_length);
      for (int64_t c = 0; c < width; ++c) part[c] = C(0);
      for (int64_t i = begin; i < end; ++i) {
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) part[c] += term(i, c);
      }
      for (int64_t c = 0; c < width; ++c) sums[c] += part[c];
    }
  }
};

template <class C>
void forward_tile(const Tile& tile, const View& y, const View& x, bool logarithm) {
  const int64_t n = tile.layout.n, width = tile.lanes;
  C* values = first_buffer.get<C>(n * width);
  alignas(64) C largest[most_lanes], scale[most_lanes];
  for (int64_t c = 0; c < width; ++c) largest[c] = C(-__builtin_inf());
  for (int64_t i = 0; i < n; ++i) {
    C* row = values + i * width;
    tile.read(row, x, i);
#pragma omp simd
    for (int64_t c = 0; c < width; ++c) largest[c] = row[c] > largest[c] ? row[c] : largest[c];
  }
  if (logarithm) {
    tile.sum(scale, [&](int64_t i, int64_t c) { return exp_(values[i * width + c] - largest[c]); });
    for (int64_t c = 0; c < width; ++c) scale[c] = log_(scale[c]);
  } else {
    tile.sum(scale, [&](int64_t i, int64_t c) {
      return values[i * width + c] = exp_(values[i * width + c] - largest[c]);
    });
    for (int64_t c = 0; c < width; ++c) scale[c] = C(1) / scale[c];
  }
  for (int64_t i = 0; i < n; ++i) {
    C* row = values + i * width;
    if (logarithm) {
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) row[c] = row[c] - largest[c] - scale[c];
    } else {
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) row[c] *= scale[c];
    }
    tile.write(y, i, row);
  }
}

template <class C>
void backward_tile(const Tile& tile, const View& dx, const View& g, const View& y, bool logarithm) {
  const int64_t n = tile.layout.n, width = tile.lanes;
  C* upper = first_buffer.get<C>(n * width);
  C* result = second_buffer.get<C>(n * width);
  alignas(64) C sum[most_lanes];
  for (int64_t i = 0; i < n; ++i) {
    tile.read(upper + i * width, g, i);
    tile.read(result + i * width, y, i);
  }
  if (logarithm)
    tile.sum(sum, [&](int64_t i, int64_t c) { return upper[i * width + c]; });
  else
    tile.sum(sum,
             [&](int64_t i, int64_t c) { return upper[i * width + c] * result[i * width + c]; });
  for (int64_t i = 0; i < n; ++i) {
    C* out = upper + i * width;
    const C* value = result + i * width;
    if (logarithm) {
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) out[c] -= exp_(value[c]) * sum[c];
    } else {
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) out[c] = value[c] * (out[c] - sum[c]);
    }
    tile.write(dx, i, out);
  }
}

// Calls body(tile) for all tiles.
template <class Body>
void for_each_tile(const Layout& layout, Body&& body) {
  const int64_t tiles = layout.outer * layout.across, work = layout.n * layout.width;
  for_each_range(tiles, grain_for(work), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(Tile(layout, i));
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT::softmax_columns
