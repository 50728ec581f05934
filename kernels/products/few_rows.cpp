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

template <class T>
void multiply(const View& y, const View& x, const View& w, const View& bias) {
  const int64_t n = x.shape[1], columns = w.shape[0], padded = padded_to_steps<T>(n);
  thread_local Scratch kept;
  float* rows = kept.get<float>(x.shape[0] * padded);
  for (int64_t r = 0; r < x.shape[0]; ++r)
    widen_row(rows + r * padded, x.as<const T>() + r * x.strides[0], x.strides[1], n);
  const int64_t stride = w.strides[0], row_bytes = stride * int64_t(sizeof(T)) + 1;
  const int64_t ahead = (ahead_bytes / row_bytes + 1) * stride;
  const int64_t fit = block_bytes / row_bytes / 8 * 8;
  const int64_t grain = fit < 8 ? 8 : smaller(fit, most_columns);
  for_each_range(columns, grain, [&](int64_t begin, int64_t end) {
    alignas(64) float sums[most_dot_rows * most_columns];
    with_vectors<most_dot_rows>(x.shape[0], [&](auto count) {
      dot_rows<T, count.value>(sums, most_columns, {rows, padded}, w.as<const T>() + begin * stride,
                               stride, end - begin, n, ahead);
    });
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
