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

template <class C>
struct Normalization {
  View y, mean, rstd;
  Affine<C> parameters;
  double eps;
  C* buffer;  // for a row of y

  Normalization(const View& y_, const View& mean_, const View& rstd_, const View& gamma,
                const View& beta, double eps_)
      : y(y_),
        mean(mean_),
        rstd(rstd_),
        parameters(affine<C>(gamma, beta, y_.columns())),
        eps(eps_),
        buffer(output_buffer.get<C>(y_.columns())) {}

  // Row `row` of y, mean and rstd from the row x.
  void normalize(int64_t row, const C* x) const {
    const int64_t n = y.columns();
    const Statistics<C> of_x = statistics_near_zero(x, n, eps);
    C* out = row_target(y, row * n, buffer);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i)
      out[i] = (x[i] - of_x.mean.center) * of_x.rstd * parameters.gamma[i] + parameters.beta[i];
    of_x.store(mean, rstd, row);
    if (of_x.is_far()) [[unlikely]]
      normalize_far_from_zero(out, row, x);
    write_row(y, row * n, n, out);
  }

 private:
  [[gnu::noinline]] void normalize_far_from_zero(C* out, int64_t row, const C* x) const {
    const int64_t n = y.columns();
    const Statistics<C> of_x = statistics_far_from_zero(x, n, eps);
    const C center = of_x.mean.center, factor = of_x.rstd, shift = -of_x.mean.rest * factor;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i)
      out[i] = ((x[i] - center) * factor + shift) * parameters.gamma[i] + parameters.beta[i];
    of_x.store(mean, rstd, row);
  }
};

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
  const C center = of_x.mean.center, rstd = of_x.rstd, shift = -of_x.mean.rest * rstd;
  const C average_u = sum_of<C>(n, [=](int64_t i) { return g[i] * gamma[i]; }) / C(n);
  const C average_ux =
      sum_of<C>(n, [=](int64_t i) { return g[i] * gamma[i] * (x[i] - center); }) / C(n);
  const C average_uh = average_ux * rstd + average_u * shift;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const C h = (x[i] - center) * rstd + shift;
    const C slope = g[i];
    dx[i] = rstd * (slope * gamma[i] - average_u - h * average_uh) + carried[i];
    dgamma[i] += slope * h;
    dbeta[i] += slope;
  }
}

}  // namespace

void layer_norm(View y, View mean, View rstd, View x, View gamma, View beta, double eps) {
  const int64_t n = x.columns();
  visit_compute(x.dtype, [&]<class C>(C*) {
    for_each_range(x.rows(), grain_for(n), [&](int64_t begin, int64_t end) {
      const Normalization<C> norm(y, mean, rstd, gamma, beta, eps);
      C* buffer = row_buffer.get<C>(n);
      for (int64_t row = begin; row < end; ++row)
        norm.normalize(row, read_row(x, row * n, n, buffer));
    });
  });
}

void residual_layer_norm(View sum, View y, View mean, View rstd, View x, View branch, View gamma,
                         View beta, double eps) {
  const int64_t n = x.columns();
  visit_compute(x.dtype, [&]<class C>(C*) {
    for_each_range(x.rows(), grain_for(n), [&](int64_t begin, int64_t end) {
      const Normalization<C> norm(y, mean, rstd, gamma, beta, eps);
      for (int64_t row = begin; row < end; ++row)
        norm.normalize(row, add_row<C>(sum, x, branch, row));
    });
  });
}

void layer_norm_backward(View dx, View dgamma, View dbeta, View g, View carried, View x, View mean,
                         View rstd, View gamma) {
  const int64_t n = x.columns();
  visit_compute(x.dtype, [&]<class C>(C*) {
    const C* sums =
        sum_over_rows<C>(x.rows(), 2 * n, totals, [&](int64_t begin, int64_t end, C* partial) {
          const C* factors = parameter_row(gamma, n, C(1), gamma_buffer);
          const C* zeros = parameter_row(View{}, n, C(0), beta_buffer);
          for (int64_t row = begin; row < end; ++row) {
            const int64_t first = row * n;
            const auto of_x = Statistics<C>::load(mean, rstd, row);
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
