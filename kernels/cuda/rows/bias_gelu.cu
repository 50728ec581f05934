// GELU with the bias of the preceding linear layer, its gradient, and bias gradients, as
// kernels/rows/gelu.cpp defines them.
#include "kernels/cuda/rows/column_sums.cuh"
#include "kernels/cuda/rows/row_teams.cuh"
#include "kernels/numbers/math.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

template <class C, class Team>
__device__ void gelu_of_row(const Operand& y, const Operand& x, const Operand& bias,
                            const Row<Team, C>& row, bool tanh_form) {
  for (int64_t chunk = 0; chunk < row.chunks(); ++chunk) {
    const auto share = row.share(chunk);
    C value[held<C>], shift[held<C>];
    load_share(value, x, row.begin, share, C(0));
    load_share(shift, bias, 0, share, C(0));
#pragma unroll
    for (int e = 0; e < held<C>; ++e) {
      const C v = value[e] + shift[e];
      value[e] = tanh_form ? gelu_tanh_(v) : v * normal_cdf(v);
    }
    store_share(y, row.begin, share, value);
  }
}

template <class C, class Team>
void gelu_of_rows(Operand y, Operand x, Operand bias, int64_t rows, int64_t columns,
                  bool tanh_form) {
  for_each_row<Team>(rows, [=] ON_DEVICE(int64_t row) {
    gelu_of_row(y, x, bias, Row<Team, C>(x, row, columns), tanh_form);
  });
}

// Writes dx and adds it up.
template <class C>
struct GeluBackward {
  Operand dx, g, x, bias;
  int64_t columns;
  bool tanh_form;
  __device__ void operator()(const TileShare& share, const TileRows& rows,
                             C (&sum)[1][pack_size]) const {
    C shift[pack_size];
    load_share(shift, bias, 0, share, C(0));
    rows.for_each([&](int64_t row) {
      C upper[pack_size], value[pack_size];
      load_share(upper, g, row * columns, share, C(0));
      load_share(value, x, row * columns, share, C(0));
#pragma unroll
      for (int i = 0; i < pack_size; ++i) {
        const C v = value[i] + shift[i];
        value[i] = upper[i] * (tanh_form ? gelu_tanh_slope(v) : gelu_slope(v));
        sum[0][i] += value[i];
      }
      store_share(dx, row * columns, share, value);
    });
  }
};

}  // namespace

void bias_gelu(View y, View x, View bias, bool tanh_form) {
  visit_teams(x.dtype, x.columns(), [&](auto* compute, auto* team) {
    gelu_of_rows<__typeof__(*compute), __typeof__(*team)>(y, x, bias, x.rows(), x.columns(),
                                                          tanh_form);
  });
}

void bias_gelu_backward(View dx, View dbias, View g, View x, View bias, bool tanh_form) {
  visit_compute(x.dtype, [&](auto* compute) {
    using C = __typeof__(*compute);
    const Workspace<C> totals(x.columns());
    sum_over_rows<C, 1>(totals.data(), x.rows(), x.columns(),
                        GeluBackward<C>{dx, g, x, bias, x.columns(), tanh_form});
    write_totals(dbias, totals.data(), x.columns());
  });
}

void column_sums(View out, View x) {
  visit_compute(x.dtype, [&](auto* compute) {
    using C = __typeof__(*compute);
    const Workspace<C> totals(x.columns());
    sum_over_rows<C, 1>(totals.data(), x.rows(), x.columns(), AddElements<C>{x, x.columns()});
    write_totals(out, totals.data(), x.columns());
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
