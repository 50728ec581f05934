// Normalisation by the root of the mean square of a row, and its gradients, as
// kernels/rows/rms_norm.cpp defines them.
#include "kernels/cuda/rows/column_sums.cuh"
#include "kernels/cuda/rows/row_teams.cuh"
#include "kernels/numbers/math.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

struct RmsNorm {
  Operand y, rstd, x, gamma;
  int64_t columns;
  double eps;
};

template <class C, class Team>
__device__ void normalize_row(const RmsNorm& norm, int64_t index) {
  const Row<Team, C> row(norm.x, index, norm.columns);
  C value[held<C>], squares = 0;
  for (int64_t chunk = 0; chunk < row.chunks(); ++chunk) {
    load_share(value, norm.x, row.begin, row.share(chunk), C(0));
#pragma unroll
    for (int e = 0; e < held<C>; ++e) squares += value[e] * value[e];
  }
  const C rstd = C(1) / sqrt_(team_sum<Team>(squares) / C(norm.columns) + C(norm.eps));
  for (int64_t chunk = 0; chunk < row.chunks(); ++chunk) {
    const auto share = row.share(chunk);
    if (row.chunks() > 1) load_share(value, norm.x, row.begin, share, C(0));
    C gamma[held<C>];
    load_share(gamma, norm.gamma, 0, share, C(1));
#pragma unroll
    for (int e = 0; e < held<C>; ++e) value[e] = value[e] * rstd * gamma[e];
    store_share(norm.y, row.begin, share, value);
  }
  if (Team::rank() == 0) store_one(norm.rstd, index, rstd);
}

template <class C, class Team>
void normalize_rows(RmsNorm norm, int64_t rows) {
  for_each_row<Team>(rows, [=] ON_DEVICE(int64_t row) { normalize_row<C, Team>(norm, row); });
}

struct RmsGradient {
  Operand dx, g, x, rstd, gamma;
  int64_t rows, columns;
};

// u = g gamma, and x; both 0 outside of the row.
template <class C, class Team>
__device__ void load_both(C (&u)[held<C>], C (&value)[held<C>], const RmsGradient& of,
                          const Row<Team, C>& row, const typename Row<Team, C>::Share& share) {
  load_share(u, of.g, row.begin, share, C(0));
  load_share(value, of.gamma, 0, share, C(1));
#pragma unroll
  for (int e = 0; e < held<C>; ++e) u[e] *= value[e];
  load_share(value, of.x, row.begin, share, C(0));
}

// dx = rstd (u - x rstd^2 average(u x))
template <class C, class Team>
__device__ void gradient_of_row(const RmsGradient& of, int64_t index) {
  const Row<Team, C> row(of.x, index, of.columns);
  const C rstd = load_one<C>(of.rstd, index);
  C u[held<C>], value[held<C>], sum = 0;
  for (int64_t chunk = 0; chunk < row.chunks(); ++chunk) {
    load_both(u, value, of, row, row.share(chunk));
#pragma unroll
    for (int e = 0; e < held<C>; ++e) sum += u[e] * value[e];
  }
  const C pull = team_sum<Team>(sum) / C(of.columns) * rstd * rstd;
  for (int64_t chunk = 0; chunk < row.chunks(); ++chunk) {
    const auto share = row.share(chunk);
    if (row.chunks() > 1) load_both(u, value, of, row, share);
#pragma unroll
    for (int e = 0; e < held<C>; ++e) u[e] = rstd * (u[e] - value[e] * pull);
    store_share(of.dx, row.begin, share, u);
  }
}

// dgamma = sum over rows of g x rstd
template <class C>
struct AddGammaGradient {
  static constexpr int blocks = 2;
  RmsGradient of;
  __device__ void operator()(const TileShare& share, const TileRows& rows,
                             C (&sum)[1][pack_size]) const {
    const bool packs = are_packs(share, rows.first * of.columns, of.g, of.x);
    rows.for_each_batch<rows_at_once<C, 2>>(
        packs, [&]<int most, bool packed>(const RowBatch<most, packed>& batch) {
          RowPacks<C, most> g, x;
          load_rows<C>(g, of.g, of.columns, share, batch);
          load_rows<C>(x, of.x, of.columns, share, batch);
#pragma unroll
          for (int i = 0; i < most; ++i) {
            if (i >= batch.count) break;
            const C rstd = load_one<C>(of.rstd, batch.row(i));
#pragma unroll
            for (int e = 0; e < pack_size; ++e) sum[0][e] += g[i][e] * x[i][e] * rstd;
          }
        });
  }
};

template <class C, class Team>
void gradients_of_rows(const SumOutputs<1>& dgamma, RmsGradient of) {
  if (dgamma.any()) sum_over_rows<C, 1>(dgamma, of.rows, of.columns, AddGammaGradient<C>{of});
  for_each_row<Team>(of.rows, [=] ON_DEVICE(int64_t row) { gradient_of_row<C, Team>(of, row); });
}

}  // namespace

void rms_norm(View y, View rstd, View x, View gamma, double eps) {
  const RmsNorm norm = {y, rstd, x, gamma, x.columns(), eps};
  visit_teams(x.dtype, x.columns(), [&]<class C, class Team>(C*, Team*) {
    normalize_rows<C, Team>(norm, x.rows());
  });
}

// The parameter first: dx may be g's memory.
void rms_norm_backward(View dx, View dgamma, View g, View x, View rstd, View gamma) {
  const RmsGradient of = {dx, g, x, rstd, gamma, x.rows(), x.columns()};
  visit_teams(x.dtype, x.columns(), [&]<class C, class Team>(C*, Team*) {
    gradients_of_rows<C, Team>({dgamma}, of);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
