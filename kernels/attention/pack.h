// Operands of attention in the layouts of tile.h's register tiles. They are copies of one head's
// rows, padded with zeros to whole vectors, from any stride and floating dtype.
#pragma once

#include "kernels/numbers/convert.h"
#include "kernels/products/amx.h"

#include <string.h>

namespace booster::kernels::BOOSTER_VARIANT::tile {

KERNEL_FN int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
KERNEL_FN int64_t round_up(int64_t n, int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}
// Returns the items per block for the fewest equal blocks of n items, with at most `most` each.
KERNEL_FN int64_t even_block(int64_t n, int64_t most, int64_t multiple) {
  const int64_t blocks = (n + most - 1) / most;
  return blocks == 0 ? multiple : round_up((n + blocks - 1) / blocks, multiple);
}

// Rows of one head of a View (batch, heads, tokens, head_size).
struct HeadRows {
  char* data = nullptr;
  DType dtype = DType::f32;
  int64_t stride = 0;  // elements
  int64_t tokens = 0;
  int64_t features = 0;  // head_size

  char* row(int64_t token) const { return data + token * stride * size_of(dtype); }
};

inline HeadRows head_rows(const View& x, int64_t batch, int64_t head) {
  const int64_t element = batch * x.strides[0] + head * x.strides[1];
  return {x.as<char>() + element * size_of(x.dtype), x.dtype, x.strides[2], x.shape[2], x.shape[3]};
}

// Prefetches rows that will soon be read or written. They are pages apart, where the hardware
// prefetcher does not help. Other work therefore fetches one token at a time into the second-level
// cache.
class Prefetch {
 public:
  void reads(const HeadRows& rows) { reads_[read_count_++] = rows; }
  void writes(const HeadRows& rows) { writes_[write_count_++] = rows; }
  KERNEL_FN void next_token() {
    for (int i = 0; i < read_count_; ++i) fetch<0>(reads_[i]);
    for (int i = 0; i < write_count_; ++i) fetch<1>(writes_[i]);
    ++token_;
  }

 private:
  template <int to_write>
  KERNEL_FN void fetch(const HeadRows& rows) const {
    if (token_ >= rows.tokens) return;
    const char* p = rows.row(token_);
    const char* end = p + rows.features * size_of(rows.dtype);
    for (; p < end; p += 64) __builtin_prefetch(p, to_write, 2);
  }

  HeadRows reads_[5], writes_[3];
  int read_count_ = 0, write_count_ = 0;
  int64_t token_ = 0;
};

// Widths of packed rows.
template <class F>
struct Widths {
  static constexpr int vector = lanes<typename F::Number>;
  int64_t features;  // values per row, whole vectors
  int64_t units;     // units per row, whole vectors
  int64_t steps;     // units per row that are multiplied
};
template <class F>
Widths<F> widths_for(int64_t features) {
  constexpr int n = Widths<F>::vector;
  const int64_t steps = (features + F::per_unit - 1) / F::per_unit;
  const int64_t units = round_up(steps, n);
  return {round_up(features, granule<F>), units, by_tiles<F> ? units : steps};
}

// Destinations for packed tokens; nullptr if a layout is not wanted.
template <class F>
struct Packed {
  using Unit = typename F::Unit;
  Unit* rows = nullptr;     // [token][feature unit]
  Unit* panels = nullptr;   // [panel of tokens][feature unit][token of the panel]
  Unit* columns = nullptr;  // [token unit][feature]
};

template <class F>
void load_units(typename F::Unit* units, int64_t count, const HeadRows& source, int64_t token) {
  using Number = typename F::Number;
  constexpr bool same_numbers = F::per_unit == 1;
  const int64_t n = source.features;
  const int64_t unit_bytes = int64_t(sizeof(typename F::Unit));
  const int64_t bytes = same_numbers ? n * unit_bytes : n * size_of(source.dtype);
  if constexpr (same_numbers)
    load_run<Number>(units, source.row(token), source.dtype, 1, n);
  else
    memcpy(units, source.row(token), size_t(bytes));
  memset(reinterpret_cast<char*>(units) + bytes, 0, size_t(count * unit_bytes - bytes));
}

// Transposes as many rows as a vector has lanes into their place in a panel.
template <class F>
void pack_panel(typename F::Unit* panels, const typename F::Unit* rows, const Widths<F>& widths,
                int64_t token) {
  using Unit = typename F::Unit;
  constexpr int n = lanes<Unit>;
  constexpr int wide = panel_width<F>;
  Unit* panel = panels + token / wide * wide * widths.steps + token % wide;
  for (int64_t first = 0; first < widths.steps; first += n) {
    Vector<Unit> square[n];
    for (int i = 0; i < n; ++i) square[i] = vector_at(rows + i * widths.units + first);
    transpose(square);
    const int64_t steps = smaller(n, widths.steps - first);
    for (int64_t i = 0; i < steps; ++i) vector_at(panel + (first + i) * wide) = square[i];
  }
}

// Packs tokens [first, first + count), and zeros up to `padded` (a multiple of the vector). `spare`
// has space for one vector of rows, used if packed.rows is not wanted.
template <class F>
void pack(const Packed<F>& packed, typename F::Unit* spare, const HeadRows& source,
          const Widths<F>& widths, int64_t first, int64_t count, int64_t padded) {
  constexpr int n = Widths<F>::vector;
  for (int64_t token = 0; token < padded; token += n) {
    typename F::Unit* rows = packed.rows ? packed.rows + token * widths.units : spare;
    const int64_t real = smaller(n, count - token);
    for (int64_t i = 0; i < real; ++i)
      load_units<F>(rows + i * widths.units, widths.units, source, first + token + i);
    const int64_t zeros = n - (real > 0 ? real : 0);
    memset(rows + (n - zeros) * widths.units, 0, sizeof(*rows) * size_t(zeros * widths.units));
    if (packed.panels) pack_panel<F>(packed.panels, rows, widths, token);
    if (packed.columns)
      for (int64_t i = 0; i < n; i += F::per_unit)
        F::interleave(packed.columns + (token + i) / F::per_unit * widths.features,
                      rows + i * widths.units, widths.units, widths.features);
  }
}

// Writes the transposed matrix (rows, columns), whose sizes are multiples of the vector.
template <class T>
void transpose_matrix(T* out, int64_t out_stride, const T* in, int64_t in_stride, int64_t rows,
                      int64_t columns) {
  constexpr int n = lanes<T>;
  for (int64_t row = 0; row < rows; row += n)
    for (int64_t column = 0; column < columns; column += n) {
      Vector<T> square[n];
      for (int i = 0; i < n; ++i) square[i] = vector_at(in + (row + i) * in_stride + column);
      transpose(square);
      for (int i = 0; i < n; ++i) vector_at(out + (column + i) * out_stride + row) = square[i];
    }
}

// Writes values (count, width) to the rows of a head, row i times scale(i).
template <class Number, class Scale>
void unpack(const HeadRows& target, int64_t first, int64_t count, Number* values, int64_t width,
            Scale&& scale) {
  for (int64_t i = 0; i < count; ++i) {
    Number* row = values + i * width;
    const Number factor = scale(i);
    for (int64_t j = 0; j < width; j += lanes<Number>) vector_at(row + j) *= factor;
    store_run(target.row(first + i), target.dtype, 1, row, target.features);
  }
}

}  // namespace booster::kernels::BOOSTER_VARIANT::tile
