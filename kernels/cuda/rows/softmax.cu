// Softmax and log-softmax of rows, and their gradients, as kernels/rows/softmax.cpp defines them.
#include "kernels/cuda/rows/log_sum_exp.cuh"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

template <class C, class Team>
__device__ void softmax_row(const Operand& y, const Operand& x, const Row<Team, C>& row,
                            bool logarithm) {
  C value[held<C>];
  const Exponentials<C> all = exponentials_of(value, x, row, !logarithm);
  const C scale = C(1) / all.sum, log_sum = log_(all.sum);
  for (int64_t chunk = 0; chunk < row.chunks(); ++chunk) {
    const auto share = row.share(chunk);
    if (row.chunks() > 1) load_share(value, x, row.begin, share, C(0));
#pragma unroll
    for (int e = 0; e < held<C>; ++e) {
      if (logarithm)
        value[e] = value[e] - all.largest - log_sum;
      else
        value[e] = (row.chunks() > 1 ? exp_(value[e] - all.largest) : value[e]) * scale;
    }
    store_share(y, row.begin, share, value);
  }
}

template <class C, class Team>
void softmax_rows(Operand y, Operand x, int64_t rows, int64_t columns, bool logarithm) {
  for_each_row<Team>(rows, [=] ON_DEVICE(int64_t row) {
    softmax_row<C>(y, x, Row<Team, C>(x, row, columns), logarithm);
  });
}

// Computes dx = y (g - sum(g y)); for log-softmax dx = g - exp(y) sum(g).
template <class C, class Team>
__device__ void softmax_backward_row(const Operand& dx, const Operand& g, const Operand& y,
                                     const Row<Team, C>& row, bool logarithm) {
  C upper[held<C>], result[held<C>];
  const auto load_both = [&](const typename Row<Team, C>::Share& share) {
    load_share(upper, g, row.begin, share, C(0));
    load_share(result, y, row.begin, share, C(0));
  };
  C sum = 0;
  for (int64_t chunk = 0; chunk < row.chunks(); ++chunk) {
    load_both(row.share(chunk));
#pragma unroll
    for (int e = 0; e < held<C>; ++e) sum += logarithm ? upper[e] : upper[e] * result[e];
  }
  sum = team_sum<Team>(sum);
  for (int64_t chunk = 0; chunk < row.chunks(); ++chunk) {
    const auto share = row.share(chunk);
    if (row.chunks() > 1) load_both(share);
#pragma unroll
    for (int e = 0; e < held<C>; ++e)
      upper[e] = logarithm ? upper[e] - exp_(result[e]) * sum : result[e] * (upper[e] - sum);
    store_share(dx, row.begin, share, upper);
  }
}

template <class C, class Team>
void softmax_backward_rows(Operand dx, Operand g, Operand y, int64_t rows, int64_t columns,
                           bool logarithm) {
  for_each_row<Team>(rows, [=] ON_DEVICE(int64_t row) {
    softmax_backward_row<C>(dx, g, y, Row<Team, C>(y, row, columns), logarithm);
  });
}

}  // namespace

void softmax(View y, View x, bool logarithm) {
  visit_teams(x.dtype, x.columns(), [&]<class C, class Team>(C*, Team*) {
    softmax_rows<C, Team>(y, x, x.rows(), x.columns(), logarithm);
  });
}

void softmax_backward(View dx, View g, View y, bool logarithm) {
  visit_teams(y.dtype, y.columns(), [&]<class C, class Team>(C*, Team*) {
    softmax_backward_rows<C, Team>(dx, g, y, y.rows(), y.columns(),
                                                                   logarithm);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
