// y = x w^T + bias where x has few rows, as when a language model computes a token. Memory decides
// the speed: w is read once, in order, and serves all rows while it is in registers.
//
// On two cores of a Xeon (Emerald Rapids) it reads w (768, 768) at these shares of the speed of a
// loop that only adds w up (37 to 43 GB/s):
//   rows          1       2       4       8
//   f32          93 %    86 %    82 %    72 %
//   bf16, f16    81 %    76 %    68 %    54 %
#include "kernels/catalogue.h"
#include "kernels/products/dot_tile.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

using namespace tile;

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// A block of w's rows is what a thread takes at once.
constexpr int64_t block_bytes = 64 << 10;
constexpr int64_t most_columns = 256;
// The same columns of this many bytes of later rows are fetched, so that all arrive in time. The
// processor's own prefetcher begins anew at each page.
constexpr int64_t ahead_bytes = 10 << 10;

// Adds the bias and writes columns [first, first + count) of y, whose sums have rows of
// most_columns.
void finish(const View& y, const View& bias, float* sums, int64_t first, int64_t count) {
  float added[most_columns];
  if (bias.data)
    load_run(added, bias.as<char>() + first * bias.strides[0] * size_of(bias.dtype), bias.dtype,
             bias.strides[0], count);
  for (int64_t r = 0; r < y.shape[0]; ++r) {
    float* row = sums + r * most_columns;
    if (bias.data)
      for (int64_t i = 0; i < count; ++i) row[i] += added[i];
    store_run(y.as<char>() + (r * y.strides[0] + first * y.strides[1]) * size_of(y.dtype), y.dtype,
              y.strides[1], row, count);
  }
}

// Terms that are summed by themselves. Long sums round less so, and several threads may share one.
constexpr int64_t most_terms = 8192;

// The product's part of terms [first, first + count).
struct Terms {
  int64_t first, count;
};
Terms terms_of(int64_t part, int64_t n) {
  const int64_t first = part * most_terms;
  return {first, smaller(n - first, most_terms)};
}

// Copies the terms of x's rows to `rows`, as dot_rows reads them.
template <class T>
WideRows widen_rows(float* rows, const View& x, Terms terms) {
  const int64_t padded = padded_to_steps<T>(terms.count);
  for (int64_t r = 0; r < x.shape[0]; ++r)
    widen_row(rows + r * padded, x.as<const T>() + r * x.strides[0] + terms.first * x.strides[1],
              x.strides[1], terms.count);
  return {rows, padded};
}

// sums = rows of `left` times as many rows of w as `columns`, over n terms from `right` on.
template <class T>
void sum_terms(float* sums, WideRows left, int64_t rows, const T* right, const View& w,
               int64_t columns, int64_t n) {
  const int64_t stride = w.strides[0];
  const int64_t ahead = (ahead_bytes / (stride * int64_t(sizeof(T)) + 1) + 1) * stride;
  with_vectors<most_dot_rows>(rows, [&](auto count) {
    dot_rows<T, count.value>(sums, most_columns, left, right, stride, columns, n, ahead);
  });
}

void add_sums(float* sums, const float* part, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) sums[r * most_columns + c] += part[r * most_columns + c];
}

constexpr int64_t most_sums = most_dot_rows * most_columns;

// Computes few long sums: a block of work is a part of the terms.
template <class T>
void multiply_by_parts(const View& y, const View& x, const View& w, const View& bias) {
  thread_local Scratch kept, wide;
  const int64_t n = x.shape[1], parts = (n + most_terms - 1) / most_terms;
  float* all = kept.get<float>(parts * most_sums);
  for_each_block(parts, [&](int64_t part) {
    const Terms terms = terms_of(part, n);
    float* rows = wide.get<float>(x.shape[0] * padded_to_steps<T>(terms.count));
    sum_terms<T>(all + part * most_sums, widen_rows<T>(rows, x, terms), x.shape[0],
                 w.as<const T>() + terms.first, w, w.shape[0], terms.count);
  });
  for (int64_t part = 1; part < parts; ++part)
    add_sums(all, all + part * most_sums, y.shape[0], y.shape[1]);
  finish(y, bias, all, 0, y.shape[1]);
}

template <class T>
void multiply(const View& y, const View& x, const View& w, const View& bias) {
  const int64_t n = x.shape[1], columns = w.shape[0], parts = (n + most_terms - 1) / most_terms;
  const int64_t row_bytes = w.strides[0] * int64_t(sizeof(T)) + 1;
  const int64_t fit = block_bytes / row_bytes / 8 * 8;
  const int64_t grain = fit < 8 ? 8 : smaller(fit, most_columns);
  if (columns <= grain && parts > 1) return multiply_by_parts<T>(y, x, w, bias);
  thread_local Scratch kept;
  const WideRows rows =
      widen_rows<T>(kept.get<float>(x.shape[0] * padded_to_steps<T>(n)), x, {0, n});
  for_each_range(columns, grain, [&](int64_t begin, int64_t end) {
    alignas(64) float sums[most_sums], more[most_sums];
    for (int64_t part = 0; part < parts; ++part) {
      const Terms terms = terms_of(part, n);
      sum_terms<T>(part ? more : sums, {rows.data + terms.first, rows.stride}, x.shape[0],
                   w.as<const T>() + begin * w.strides[0] + terms.first, w, end - begin,
                   terms.count);
      if (part) add_sums(sums, more, x.shape[0], end - begin);
    }
    finish(y, bias, sums, begin, end - begin);
  });
}

}  // namespace

void few_rows(View y, View x, View w, View bias) {
  if (w.dtype == DType::f16) return multiply<f16>(y, x, w, bias);
  if (w.dtype == DType::bf16) return multiply<bf16>(y, x, w, bias);
  multiply<float>(y, x, w, bias);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
