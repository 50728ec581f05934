// The gradients of layer normalisation, as kernels/rows/layer_norm.cpp defines them: one pass for
// dx, by rows, and one for dgamma and dbeta, by columns.
#include "kernels/cuda/rows/column_sums.cuh"
#include "kernels/cuda/rows/row_teams.cuh"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

struct Gradient {
  Operand dx, g, carried, x, mean, rstd, gamma;
  int64_t columns;
};

// u = g gamma, and x; both 0 outside of the row.
template <class C, class Team>
__device__ void load_both(C (&u)[held<C>], C (&value)[held<C>], const Gradient& of,
                          const Row<Team, C>& row, const typename Row<Team, C>::Share& share) {
  load_share(u, of.g, row.begin, share, C(0));
  load_share(value, of.gamma, 0, share, C(1));
#pragma unroll
  for (int e = 0; e < held<C>; ++e) u[e] *= value[e];
  load_share(value, of.x, row.begin, share, C(0));
}

// With h = (x - mean) rstd: dx = rstd (u - average(u) - h average(u h)) + carried
template <class C, class Team>
__device__ void gradient_of_row(const Gradient& of, int64_t index) {
  const Row<Team, C> row(of.x, index, of.columns);
  const C mean = load_one<C>(of.mean, index), rstd = load_one<C>(of.rstd, index);
  C u[held<C>], value[held<C>], sum_u = 0, sum_uh = 0;
  for (int64_t chunk = 0; chunk < row.chunks(); ++chunk) {
    load_both(u, value, of, row, row.share(chunk));
#pragma unroll
    for (int e = 0; e < held<C>; ++e) {
      sum_u += u[e];
      sum_uh += u[e] * (value[e] - mean);
    }
  }
  const C average_u = team_sum<Team>(sum_u) / C(of.columns);
  const C average_uh = team_sum<Team>(sum_uh) * rstd / C(of.columns);
  for (int64_t chunk = 0; chunk < row.chunks(); ++chunk) {
    const auto share = row.share(chunk);
    if (row.chunks() > 1) load_both(u, value, of, row, share);
#pragma unroll
    for (int e = 0; e < held<C>; ++e)
      u[e] = rstd * (u[e] - average_u - (value[e] - mean) * rstd * average_uh);
    load_share(value, of.carried, row.begin, share, C(0));
#pragma unroll
    for (int e = 0; e < held<C>; ++e) u[e] += value[e];
    store_share(of.dx, row.begin, share, u);
  }
}

template <class C, class Team>
void gradient_of_rows(Gradient of, int64_t rows) {
  for_each_row<Team>(rows, [=] ON_DEVICE(int64_t row) { gradient_of_row<C, Team>(of, row); });
}

// dgamma = sum over rows of g h, dbeta = sum over rows of g
template <class C>
struct AddParameterGradients {
  Gradient of;
  __device__ void operator()(const TileShare& share, const TileRows& rows,
                             C (&sum)[2][pack_size]) const {
    rows.for_each([&](int64_t row) {
      const C mean = load_one<C>(of.mean, row), rstd = load_one<C>(of.rstd, row);
      C g[pack_size], x[pack_size];
      load_share(g, of.g, row * of.columns, share, C(0));
      load_share(x, of.x, row * of.columns, share, C(0));
#pragma unroll
      for (int i = 0; i < pack_size; ++i) {
        sum[0][i] += g[i] * ((x[i] - mean) * rstd);
        sum[1][i] += g[i];
      }
    });
  }
};

template <class C>
void gradient_of_parameters(Operand dgamma, Operand dbeta, const Gradient& of, int64_t rows) {
  if (!dgamma.data && !dbeta.data) return;
  const Workspace<C> totals(2 * of.columns);
  sum_over_rows<C, 2>(totals.data(), rows, of.columns, AddParameterGradients<C>{of});
  write_totals(dgamma, totals.data(), of.columns);
  write_totals(dbeta, totals.data() + of.columns, of.columns);
}

}  // namespace

// The parameters first: dx may be g's memory.
void layer_norm_backward(View dx, View dgamma, View dbeta, View g, View carried, View x, View mean,
                         View rstd, View gamma) {
  const Gradient of = {dx, g, carried, x, mean, rstd, gamma, x.columns()};
  visit_teams(x.dtype, x.columns(), [&](auto* compute, auto* team) {
    gradient_of_parameters<__typeof__(*compute)>(dgamma, dbeta, of, x.rows());
    gradient_of_rows<__typeof__(*compute), __typeof__(*team)>(of, x.rows());
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
