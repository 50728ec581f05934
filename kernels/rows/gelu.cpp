// GELU with the bias of the preceding linear layer (Hendrycks and Gimpel, 2016), exact by erf or in
// the tanh form, and bias gradients. One pass over memory; chunks of a row are converted in cache.
#include "kernels/numbers/math.h"
#include "kernels/walks/rows.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

constexpr int64_t chunk = 512;

thread_local Scratch bias_buffer, totals;

// Calls body(column, n) for the chunks of a row.
template <class Body>
void for_each_chunk(int64_t columns, Body&& body) {
  for (int64_t column = 0; column < columns; column += chunk)
    body(column, column + chunk < columns ? chunk : columns - column);
}

template <class C, class Value>
void map_rows(const View& y, const View& x, const View& bias, Value&& value) {
  const int64_t columns = x.columns();
  for_each_range(x.rows(), grain_for(columns), [&](int64_t begin, int64_t end) {
    const C* shift = parameter_row(bias, columns, C(0), bias_buffer);
    alignas(64) C in[chunk], out[chunk];
    for (int64_t row = begin; row < end; ++row)
      for_each_chunk(columns, [&](int64_t column, int64_t n) {
        const int64_t element = row * columns + column;
        const C* values = read_row(x, element, n, in);
        C* target = row_target(y, element, out);
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) target[i] = value(values[i] + shift[column + i]);
        write_row(y, element, n, target);
      });
  });
}

template <class C, class Slope>
void map_rows_backward(const View& dx, const View& dbias, const View& g, const View& x,
                       const View& bias, Slope&& slope) {
  const int64_t columns = x.columns();
  const C* sums =
      sum_over_rows<C>(x.rows(), columns, totals, [&](int64_t begin, int64_t end, C* partial) {
        const C* shift = parameter_row(bias, columns, C(0), bias_buffer);
        alignas(64) C in[chunk], gradient[chunk], out[chunk];
        for (int64_t row = begin; row < end; ++row)
          for_each_chunk(columns, [&](int64_t column, int64_t n) {
            const int64_t element = row * columns + column;
            const C* values = read_row(x, element, n, in);
            const C* upper = read_row(g, element, n, gradient);
            C* target = row_target(dx, element, out);
            C* sum = partial + column;
#pragma omp simd
            for (int64_t i = 0; i < n; ++i) {
              const C product = upper[i] * slope(values[i] + shift[column + i]);
              target[i] = product;
              sum[i] += product;
            }
            write_row(dx, element, n, target);
          });
      });
  write_optional(dbias, columns, sums);
}

}  // namespace

void bias_gelu(View y, View x, View bias, bool tanh_form) {
  visit_compute(x.dtype, [&]<class C>(C*) {
    if (tanh_form) {
      map_rows<C>(y, x, bias, [](C v) { return gelu_tanh_(v); });
    } else {
      map_rows<C>(y, x, bias, [](C v) { return v * normal_cdf(v); });
    }
  });
}

void bias_gelu_backward(View dx, View dbias, View g, View x, View bias, bool tanh_form) {
  visit_compute(x.dtype, [&]<class C>(C*) {
    if (tanh_form) {
      map_rows_backward<C>(dx, dbias, g, x, bias, [](C v) { return gelu_tanh_slope(v); });
    } else {
      map_rows_backward<C>(dx, dbias, g, x, bias, [](C v) { return gelu_slope(v); });
    }
  });
}

void column_sums(View out, View x) {
  const int64_t columns = x.columns();
  visit_compute(x.dtype, [&]<class C>(C*) {
    const C* sums =
        sum_over_rows<C>(x.rows(), columns, totals, [&](int64_t begin, int64_t end, C* partial) {
          alignas(64) C in[chunk];
          for (int64_t row = begin; row < end; ++row)
            for_each_chunk(columns, [&](int64_t column, int64_t n) {
              const C* values = read_row(x, row * columns + column, n, in);
#pragma omp simd
              for (int64_t i = 0; i < n; ++i) partial[column + i] += values[i];
            });
        });
    write_optional(out, columns, sums);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
