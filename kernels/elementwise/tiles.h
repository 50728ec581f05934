// Walks over operands by tiles of two dimensions, on the CPU. A tile has few enough elements for
// the first-level cache. It is a part of a long run; or several short runs, which one loop
// computes; or, if an operand lies along another dimension than the result, as many of its runs as
// a cache line has elements. The tile of such an operand is transposed in registers.
#pragma once

#include "kernels/numbers/convert.h"
#include "kernels/walks/transpose.h"
#include "kernels/walks/walk.h"

namespace booster::kernels::BOOSTER_VARIANT {

inline constexpr int64_t most_of_tile = 1024;  // elements
inline constexpr int64_t parallel_elements = 16384;  // with fewer, waking threads is too slow

// The elements of one operand in a tile: `rows` runs of n elements.
struct TilePart {
  char* data;
  DType dtype;
  int64_t row_stride, stride;

  // Returns true if the elements have one distance, as a single run.
  bool is_run(int64_t rows, int64_t n) const { return rows == 1 || row_stride == n * stride; }
  bool is_transposed() const { return row_stride == 1 && stride != 0; }
};

// A walk whose last two dimensions are cut into tiles.
class TileWalk {
 public:
  TileWalk(const View* const* views, int operands) : walk_(walk_over(views, operands)) {
    if (walk_.ndim == 1) add_row();
    else move_row(row_dimension());
    cut();
  }
  int operands() const { return walk_.operands; }
  DType dtype(int k) const { return walk_.dtypes[k]; }
  // Returns true if all elements of the operand are the same number.
  bool is_constant(int k) const {
    for (int d = 0; d < walk_.ndim; ++d)
      if (walk_.shape[d] > 1 && walk_.strides[k][d] != 0) return false;
    return true;
  }
  char* data(int k) const { return walk_.data[k]; }

  // Calls visit(most, tiles) for ranges of tiles of at most `most` elements, where tiles(body)
  // calls body(parts, rows, n) for each tile.
  template <class Visit>
  void for_each_range_of_tiles(Visit&& visit) const {
    const int64_t tiles = outer_ * down_ * across_;
    if (tiles == 0) return;
    const auto range = [&](int64_t begin, int64_t end) {
      visit(rows_ * n_, [&](auto&& body) { for_each_tile(begin, end, body); });
    };
    const int64_t of_tile = rows_ * n_;
    if (tiles * of_tile < parallel_elements) return range(0, tiles);
    for_each_range(tiles, of_tile < parallel_elements / 2 ? parallel_elements / 2 / of_tile : 1,
                   range);
  }

 private:
  static constexpr int64_t short_run = 256;

  int last() const { return walk_.ndim - 1; }
  // Returns the dimension of a tile's rows: the one along which an operand lies that has gaps in
  // the last one, else the neighbour of the last one.
  int row_dimension() {
    for (int k = 0; k < walk_.operands; ++k) {
      const int64_t stride = walk_.strides[k][last()];
      if (stride == 0 || stride == 1) continue;
      for (int d = 0; d < last(); ++d)
        if (walk_.strides[k][d] == 1 && walk_.shape[d] > 1) {
          is_turned_ = true;
          return d;
        }
    }
    return last() - 1;
  }
  void add_row() {
    walk_.ndim = 2;
    walk_.shape[1] = walk_.shape[0];
    walk_.shape[0] = 1;
    for (int k = 0; k < walk_.operands; ++k) {
      walk_.strides[k][1] = walk_.strides[k][0];
      walk_.strides[k][0] = 0;
    }
  }
  void move_row(int row) {
    for (; row < last() - 1; ++row) {
      swap(walk_.shape[row], walk_.shape[row + 1]);
      for (int k = 0; k < walk_.operands; ++k)
        swap(walk_.strides[k][row], walk_.strides[k][row + 1]);
    }
  }
  static void swap(int64_t& a, int64_t& b) {
    const int64_t kept = a;
    a = b;
    b = kept;
  }
  void cut() {
    const int64_t rows = walk_.shape[last() - 1], n = walk_.shape[last()];
    const bool is_short = n > 0 && n < short_run;
    const int64_t most_rows = is_turned_ ? rows_of_line() : (is_short ? most_of_tile / n : 1);
    rows_ = rows < most_rows ? rows : most_rows;
    if (rows_ < 1) rows_ = 1;
    n_ = most_of_tile / rows_;
    if (n_ > n) n_ = n > 0 ? n : 1;
    down_ = (rows + rows_ - 1) / rows_;
    across_ = (n + n_ - 1) / n_;
    for (int d = 0; d < last() - 1; ++d) outer_ *= walk_.shape[d];
  }
  // Returns the elements in a cache line of the narrowest turned operand, at most 32.
  int64_t rows_of_line() const {
    int64_t rows = 8;
    for (int k = 0; k < walk_.operands; ++k) {
      const int64_t of_line = 64 / size_of(walk_.dtypes[k]);
      if (walk_.strides[k][last() - 1] == 1 && of_line > rows) rows = of_line < 32 ? of_line : 32;
    }
    return rows;
  }

  // The operands' offsets at a position of the outer dimensions, in elements.
  void find(int64_t position, int64_t* offsets) const {
    for (int k = 0; k < walk_.operands; ++k) offsets[k] = 0;
    for (int d = last() - 2; d >= 0; --d) {
      const int64_t rest = position / walk_.shape[d], here = position - rest * walk_.shape[d];
      for (int k = 0; k < walk_.operands; ++k) offsets[k] += here * walk_.strides[k][d];
      position = rest;
    }
  }
  template <class Body>
  void for_each_tile(int64_t begin, int64_t end, Body&& body) const {
    int64_t outer = begin / (down_ * across_), offsets[max_operands];
    int64_t row = begin / across_ % down_ * rows_, column = begin % across_ * n_;
    const int64_t all_rows = walk_.shape[last() - 1], all = walk_.shape[last()];
    find(outer, offsets);
    for (int64_t tile = begin; tile < end; ++tile) {
      TilePart parts[max_operands];
      for (int k = 0; k < walk_.operands; ++k) {
        const int64_t row_stride = walk_.strides[k][last() - 1], stride = walk_.strides[k][last()];
        const int64_t offset = offsets[k] + row * row_stride + column * stride;
        parts[k] = {walk_.data[k] + offset * size_of(walk_.dtypes[k]), walk_.dtypes[k], row_stride,
                    stride};
      }
      const int64_t rows = all_rows - row < rows_ ? all_rows - row : rows_;
      const int64_t n = all - column < n_ ? all - column : n_;
      body(parts, rows, n);
      column += n_;
      if (column < all) continue;
      column = 0;
      row += rows_;
      if (row < all_rows) continue;
      row = 0;
      find(++outer, offsets);
    }
  }

  Walk walk_;
  bool is_turned_ = false;
  int64_t rows_, n_;  // of a tile
  int64_t down_, across_, outer_ = 1;
};

template <class C>
struct alignas(64) Buffer {
  C values[most_of_tile];
};

// Calls f with a typed null pointer that represents the size of a dtype.
template <class F>
void visit_size(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 1: return f(static_cast<uint8_t*>(nullptr));
    case 2: return f(static_cast<uint16_t*>(nullptr));
    case 4: return f(static_cast<uint32_t*>(nullptr));
    default: return f(static_cast<uint64_t*>(nullptr));
  }
}

template <class T>
KERNEL_FN void fill_run(T* dense, T value, int64_t n) {
  typedef T One __attribute__((may_alias));
  One* to = dense;
  for (int64_t i = 0; i < n; ++i) to[i] = value;
}
// Sets dense[i] = from[i * stride].
template <class T>
KERNEL_FN void gather_run(T* dense, const T* from, int64_t stride, int64_t n) {
  typedef T One __attribute__((may_alias));
  One* to = dense;
  const One* p = from;
  if (stride == 1)
    __builtin_memmove(dense, from, size_t(n) * sizeof(T));
  else if (stride == 0)
    fill_run(dense, *p, n);
  else if (stride == -1)
    for (int64_t i = 0; i < n; ++i) to[i] = p[-i];
  else
    for (int64_t i = 0; i < n; ++i) to[i] = p[i * stride];
}
template <class T>
KERNEL_FN void scatter_run(T* to, const T* dense, int64_t stride, int64_t n) {
  typedef T One __attribute__((may_alias));
  One* p = to;
  const One* from = dense;
  if (stride == 1)
    __builtin_memmove(to, dense, size_t(n) * sizeof(T));
  else
    for (int64_t i = 0; i < n; ++i) p[i * stride] = from[i];
}

// Copies a part's elements, of T's size, to dense memory.
template <class T>
void gather(T* dense, const TilePart& part, int64_t rows, int64_t n) {
  const T* from = reinterpret_cast<const T*>(part.data);
  if (part.is_run(rows, n)) return gather_run(dense, from, part.stride, rows * n);
  if (part.is_transposed()) return transpose_block(dense, n, from, part.stride, rows, n);
  for (int64_t r = 0; r < rows; ++r)
    gather_run(dense + r * n, from + r * part.row_stride, part.stride, n);
}
// Copies dense elements to a part.
template <class T>
void scatter(const TilePart& part, const T* dense, int64_t rows, int64_t n) {
  T* to = reinterpret_cast<T*>(part.data);
  if (part.is_run(rows, n)) return scatter_run(to, dense, part.stride, rows * n);
  if (part.is_transposed()) return transpose_block(to, part.stride, dense, n, n, rows);
  for (int64_t r = 0; r < rows; ++r)
    scatter_run(to + r * part.row_stride, dense + r * n, part.stride, n);
}
inline void gather_any(void* dense, const TilePart& part, int64_t rows, int64_t n) {
  visit_size(part.dtype,
             [&](auto* type) { gather(static_cast<decltype(type)>(dense), part, rows, n); });
}
inline void scatter_any(const TilePart& part, const void* dense, int64_t rows, int64_t n) {
  visit_size(part.dtype,
             [&]<class T>(T*) { scatter(part, static_cast<const T*>(dense), rows, n); });
}

// Memory for a tile in any dtype.
using Room = Buffer<uint64_t>;

// Returns the part's elements as a dense run: where they lie, or in `room`.
inline const void* dense_part(const TilePart& part, int64_t rows, int64_t n, Room& room) {
  if (part.stride == 1 && part.is_run(rows, n)) return part.data;
  gather_any(room.values, part, rows, n);
  return room.values;
}

// Returns the part's elements as a dense run of C.
template <class C>
const C* load_tile(const TilePart& part, int64_t rows, int64_t n, Buffer<C>& buffer) {
  const bool is_dense = part.stride == 1 && part.is_run(rows, n);
  if (part.dtype == DTypeOf<C>::value) {
    if (is_dense) return reinterpret_cast<const C*>(part.data);
    gather(buffer.values, part, rows, n);
  } else if (part.is_run(rows, n)) {
    load_run(buffer.values, part.data, part.dtype, part.stride, rows * n);
  } else {
    Room room;
    load_run(buffer.values, dense_part(part, rows, n, room), part.dtype, 1, rows * n);
  }
  return buffer.values;
}

// Sets the part's elements to src.
template <class C>
void store_tile(const TilePart& part, const C* src, int64_t rows, int64_t n) {
  if (part.dtype == DTypeOf<C>::value)
    return scatter(part, src, rows, n);
  if (part.is_run(rows, n))
    return store_run(part.data, part.dtype, part.stride, src, rows * n);
  Room room;
  store_run(room.values, part.dtype, 1, src, rows * n);
  scatter_any(part, room.values, rows, n);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
