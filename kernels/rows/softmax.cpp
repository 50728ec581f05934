// Softmax and log-softmax of rows or columns, and their gradients. The largest element is
// subtracted first, so nothing overflows; a row of only -inf gives nan, as in PyTorch.
#include "kernels/numbers/math.h"
#include "kernels/rows/softmax_columns.h"
#include "kernels/walks/row_sums.h"
#include "kernels/walks/rows.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

thread_local Scratch input_buffer, gradient_buffer, output_buffer;

// out = exp(x - max), then divided by its sum.
template <class C>
void softmax_row(C* out, const C* x, int64_t n) {
  const C largest = row_max(x, n);
  const C sum = sum_of<C>(n, [=](int64_t i) { return out[i] = exp_(x[i] - largest); });
  const C scale = C(1) / sum;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] *= scale;
}

// out = x - max - log(sum exp(x - max))
template <class C>
void log_softmax_row(C* out, const C* x, int64_t n) {
  const C largest = row_max(x, n);
  const C sum = sum_of<C>(n, [=](int64_t i) { return exp_(x[i] - largest); });
  const C log_sum = log_(sum);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] - largest - log_sum;
}

// dx = y (g - sum(g y))
template <class C>
void softmax_backward_row(C* dx, const C* g, const C* y, int64_t n) {
  const C dot = sum_of<C>(n, [=](int64_t i) { return g[i] * y[i]; });
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = y[i] * (g[i] - dot);
}

// dx = g - exp(y) sum(g)
template <class C>
void log_softmax_backward_row(C* dx, const C* g, const C* y, int64_t n) {
  const C sum = row_sum(g, n);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) dx[i] = g[i] - exp_(y[i]) * sum;
}

template <class C>
void forward_columns(const View& y, const View& x, bool logarithm) {
  using namespace softmax_columns;
  for_each_tile(Layout(x), [&](const Tile& tile) { forward_tile<C>(tile, y, x, logarithm); });
}

template <class C>
void backward_columns(const View& dx, const View& g, const View& y, bool logarithm) {
  using namespace softmax_columns;
  for_each_tile(Layout(y), [&](const Tile& tile) { backward_tile<C>(tile, dx, g, y, logarithm); });
}

}  // namespace

void softmax(View y, View x, bool logarithm) {
  const int64_t n = x.columns();
  visit_compute(x.dtype, [&]<class C>(C*) {
    if (softmax_columns::Layout::is_for(x)) return forward_columns<C>(y, x, logarithm);
    for_each_range(x.rows(), grain_for(n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const C* in = read_row(x, row * n, n, input_buffer.get<C>(n));
        C* out = row_target(y, row * n, output_buffer.get<C>(n));
        logarithm ? log_softmax_row(out, in, n) : softmax_row(out, in, n);
        write_row(y, row * n, n, out);
      }
    });
  });
}

void softmax_backward(View dx, View g, View y, bool logarithm) {
  const int64_t n = y.columns();
  visit_compute(y.dtype, [&]<class C>(C*) {
    if (softmax_columns::Layout::is_for(y)) return backward_columns<C>(dx, g, y, logarithm);
    for_each_range(y.rows(), grain_for(n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const C* upper = read_row(g, row * n, n, gradient_buffer.get<C>(n));
        const C* result = read_row(y, row * n, n, input_buffer.get<C>(n));
        C* out = row_target(dx, row * n, output_buffer.get<C>(n));
        logarithm ? log_softmax_backward_row(out, upper, result, n)
                  : softmax_backward_row(out, upper, result, n);
        write_row(dx, row * n, n, out);
      }
    });
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
