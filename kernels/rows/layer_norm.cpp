// Layer normalisation over the last dimension (Ba, Kiros and Hinton, 2016), its form with a
// preceding residual addition, and the backward passes of both. A row stays in the cache between
// its passes, so memory is read once and written once.
#include "kernels/rows/row_statistics.h"
#include "kernels/walks/rows.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

thread_local Scratch row_buffer, gradient_buffer, carried_buffer, output_buffer;
thread_local Scratch gamma_buffer, beta_buffer, totals;

template <class C>
struct Affine {
  const C* gamma;
  const C* beta;
};

template <class C>
Affine<C> affine(const View& gamma, const View& beta, int64_t n) {
  return {parameter_row(gamma, n, C(1), gamma_buffer), parameter_row(beta, n, C(0), beta_buffer)};
}

// Row `row` of y, mean and rstd from the row x.
template <class C>
void normalize_row(const View& y, const View& mean, const View& rstd, int64_t row, const C* x,
                   Affine<C> parameters, double eps) {
  const int64_t n = y.columns();
  const Statistics<C> of_x = statistics_of(x, n, eps);
  C* out = row_target(y, row * n, output_buffer.get<C>(n));
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    out[i] = (x[i] - of_x.mean) * of_x.rstd * parameters.gamma[i] + parameters.beta[i];
  write_row(y, row * n, n, out);
  store_scalar(mean, row, of_x.mean);
  store_scalar(rstd, row, of_x.rstd);
}

// Row `row` of sum = x + branch, rounded to sum's dtype since it will be read back in that dtype.
template <class C>
const C* add_row(const View& sum, const View& x, const View& branch, int64_t row) {
  const int64_t n = sum.columns();
  C* buffer = row_buffer.get<C>(n);
  C* out = row_target(sum, row * n, buffer);
  const C* a = read_row(x, row * n, n, out);
  const C* b = read_row(branch, row * n, n, gradient_buffer.get<C>(n));
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] + b[i];
  write_row(sum, row * n, n, out);
  return read_row(sum, row * n, n, buffer);
}

// dx of one row, plus `carried`; adds the row's part to the sums of dgamma and dbeta.
//
// With h = (x - mean) rstd and u = g gamma: dx = rstd (u - average(u) - h average(u h)),
// dgamma = sum over rows of g h, dbeta = sum over rows of g.
template <class C>
void backward_row(C* dx, const C* g, const C* carried, const C* x, const C* gamma,
                  Statistics<C> of_x, int64_t n, C* dgamma, C* dbeta) {
  const C mean = of_x.mean, rstd = of_x.rstd;
  const C average_u = sum_of<C>(n, [=](int64_t i) { return g[i] * gamma[i]; }) / C(n);
  const C average_uh =
      sum_of<C>(n, [=](int64_t i) { return g[i] * gamma[i] * (x[i] - mean); }) * rstd / C(n);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const C h = (x[i] - mean) * rstd;
    const C slope = g[i];
    dx[i] = rstd * (slope * gamma[i] - average_u - h * average_uh) + carried[i];
    dgamma[i] += slope * h;
    dbeta[i] += slope;
  }
}

}  // namespace

void layer_norm(View y, View mean, View rstd, View x, View gamma, View beta, double eps) {
  const int64_t n = x.columns();
  visit_compute(x.dtype, [&](auto* compute) {
    using C = __typeof__(*compute + 0);
    for_each_range(x.rows(), grain_for(n), [&](int64_t begin, int64_t end) {
      const Affine<C> parameters = affine<C>(gamma, beta, n);
      for (int64_t row = begin; row < end; ++row) {
        const C* values = read_row(x, row * n, n, row_buffer.get<C>(n));
        normalize_row(y, mean, rstd, row, values, parameters, eps);
      }
    });
  });
}

void residual_layer_norm(View sum, View y, View mean, View rstd, View x, View branch, View gamma,
                         View beta, double eps) {
  const int64_t n = x.columns();
  visit_compute(x.dtype, [&](auto* compute) {
    using C = __typeof__(*compute + 0);
    for_each_range(x.rows(), grain_for(n), [&](int64_t begin, int64_t end) {
      const Affine<C> parameters = affine<C>(gamma, beta, n);
      for (int64_t row = begin; row < end; ++row)
        normalize_row(y, mean, rstd, row, add_row<C>(sum, x, branch, row), parameters, eps);
    });
  });
}

void layer_norm_backward(View dx, View dgamma, View dbeta, View g, View carried, View x, View mean,
                         View rstd, View gamma) {
  const int64_t n = x.columns();
  visit_compute(x.dtype, [&](auto* compute) {
    using C = __typeof__(*compute + 0);
    const C* sums =
        sum_over_rows<C>(x.rows(), 2 * n, totals, [&](int64_t begin, int64_t end, C* partial) {
          const C* factors = parameter_row(gamma, n, C(1), gamma_buffer);
          const C* zeros = parameter_row(View{}, n, C(0), beta_buffer);
          for (int64_t row = begin; row < end; ++row) {
            const int64_t first = row * n;
            const Statistics<C> of_x = {load_scalar<C>(mean, row), load_scalar<C>(rstd, row)};
            const C* extra =
                carried.data ? read_row(carried, first, n, carried_buffer.get<C>(n)) : zeros;
            C* out = row_target(dx, first, output_buffer.get<C>(n));
            backward_row(out, read_row(g, first, n, gradient_buffer.get<C>(n)), extra,
                         read_row(x, first, n, row_buffer.get<C>(n)), factors, of_x, n, partial,
                         partial + n);
            write_row(dx, first, n, out);
          }
        });
    write_optional(dgamma, n, sums);
    write_optional(dbeta, n, sums + n);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
