// Normalisation by the root of the mean square of a row (Zhang and Sennrich, "Root mean square
// layer normalization", 2019), and its gradients.
#include "kernels/numbers/math.h"
#include "kernels/walks/row_sums.h"
#include "kernels/walks/rows.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

thread_local Scratch row_buffer, gradient_buffer, output_buffer, gamma_buffer, totals;

// dx of one row; adds the row's part to the sums of dgamma. With u = g gamma:
//   dx = rstd (u - x rstd^2 average(u x)), dgamma = sum over rows of g x rstd
template <class C>
void backward_row(C* dx, const C* g, const C* x, const C* gamma, C rstd, int64_t n, C* dgamma) {
  const C average = sum_of<C>(n, [=](int64_t i) { return g[i] * gamma[i] * x[i]; }) / C(n);
  const C pull = average * rstd * rstd;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const C slope = g[i], value = x[i];
    dx[i] = rstd * (slope * gamma[i] - value * pull);
    dgamma[i] += slope * value * rstd;
  }
}

}  // namespace

void rms_norm(View y, View rstd, View x, View gamma, double eps) {
  const int64_t n = x.columns();
  visit_compute(x.dtype, [&]<class C>(C*) {
    for_each_range(x.rows(), grain_for(n), [&](int64_t begin, int64_t end) {
      const C* factors = parameter_row(gamma, n, C(1), gamma_buffer);
      for (int64_t row = begin; row < end; ++row) {
        const C* values = read_row(x, row * n, n, row_buffer.get<C>(n));
        const C squares = sum_of<C>(n, [=](int64_t i) { return values[i] * values[i]; });
        const C factor = C(1) / sqrt_(squares / C(n) + C(eps));
        C* out = row_target(y, row * n, output_buffer.get<C>(n));
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) out[i] = values[i] * factor * factors[i];
        store_scalar(rstd, row, factor);
        write_row(y, row * n, n, out);
      }
    });
  });
}

void rms_norm_backward(View dx, View dgamma, View g, View x, View rstd, View gamma) {
  const int64_t n = x.columns();
  visit_compute(x.dtype, [&]<class C>(C*) {
    const C* sums =
        sum_over_rows<C>(x.rows(), n, totals, [&](int64_t begin, int64_t end, C* partial) {
          const C* factors = parameter_row(gamma, n, C(1), gamma_buffer);
          for (int64_t row = begin; row < end; ++row) {
            C* out = row_target(dx, row * n, output_buffer.get<C>(n));
            backward_row(out, read_row(g, row * n, n, gradient_buffer.get<C>(n)),
                         read_row(x, row * n, n, row_buffer.get<C>(n)), factors,
                         load_scalar<C>(rstd, row), n, partial);
            write_row(dx, row * n, n, out);
          }
        });
    write_optional(dgamma, n, sums);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
