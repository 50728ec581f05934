// The gradients of layer normalisation, as kernels/rows/layer_norm.cpp defines them. If a team's
// threads hold a whole row, and the same columns of all rows, one pass computes dx and adds up
// dgamma and dbeta. Otherwise one pass by rows computes dx, and one by columns computes dgamma and
// dbeta.
#include "kernels/cuda/rows/column_sums.cuh"
#include "kernels/cuda/rows/moments.cuh"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

struct Gradient {
  Operand dx, g, carried, x, mean, rstd, gamma;
  int64_t rows, columns;
};

// Loads u = g gamma, and x; both are 0 outside of the row.
template <class C, class Team>
__device__ void load_both(C (&u)[held<C>], C (&value)[held<C>], const Gradient& of,
                          const Row<Team, C>& row, const typename Row<Team, C>::Share& share) {
  load_share(u, of.g, row.begin, share, C(0));
  load_share(value, of.gamma, 0, share, C(1));
#pragma unroll
  for (int e = 0; e < held<C>; ++e) u[e] *= value[e];
  load_share(value, of.x, row.begin, share, C(0));
}

// Computes dx = rstd (u - average(u) - h average(u h)) + carried, with h = (x - mean) rstd.
template <class C, class Team>
__device__ void gradient_of_row(const Gradient& of, int64_t index) {
  const Row<Team, C> row(of.x, index, of.columns);
  const Mean<C> mean = load_mean<C>(of.mean, index);
  const C rstd = load_one<C>(of.rstd, index), shift = -mean.rest * rstd;
  C u[held<C>], value[held<C>], sum_u = 0, sum_ux = 0;
  for (int64_t chunk = 0; chunk < row.chunks(); ++chunk) {
    load_both(u, value, of, row, row.share(chunk));
#pragma unroll
    for (int e = 0; e < held<C>; ++e) {
      sum_u += u[e];
      sum_ux += u[e] * (value[e] - mean.center);
    }
  }
  const C average_u = team_sum<Team>(sum_u) / C(of.columns);
  const C average_uh = team_sum<Team>(sum_ux) * rstd / C(of.columns) + average_u * shift;
  for (int64_t chunk = 0; chunk < row.chunks(); ++chunk) {
    const auto share = row.share(chunk);
    if (row.chunks() > 1) load_both(u, value, of, row, share);
#pragma unroll
    for (int e = 0; e < held<C>; ++e)
      u[e] = rstd * (u[e] - average_u - ((value[e] - mean.center) * rstd + shift) * average_uh);
    load_share(value, of.carried, row.begin, share, C(0));
#pragma unroll
    for (int e = 0; e < held<C>; ++e) u[e] += value[e];
    store_share(of.dx, row.begin, share, u);
  }
}

// dgamma = sum over rows of g h, dbeta = sum over rows of g
template <class C>
struct AddParameterGradients {
  static constexpr int blocks = 2;
  Gradient of;
  __device__ void operator()(const TileShare& share, const TileRows& rows,
                             C (&sum)[2][pack_size]) const {
    const bool packs = are_packs(share, rows.first * of.columns, of.g, of.x);
    rows.for_each_batch<rows_at_once<C, 2>>(
        packs, [&]<int most, bool packed>(const RowBatch<most, packed>& batch) {
          RowPacks<C, most> g, x;
          load_rows<C>(g, of.g, of.columns, share, batch);
          load_rows<C>(x, of.x, of.columns, share, batch);
#pragma unroll
          for (int i = 0; i < most; ++i) {
            if (i >= batch.count) break;
            const int64_t row = batch.row(i);
            const Mean<C> mean = load_mean<C>(of.mean, row);
            const C rstd = load_one<C>(of.rstd, row), shift = -mean.rest * rstd;
#pragma unroll
            for (int e = 0; e < pack_size; ++e) {
              sum[0][e] += g[i][e] * ((x[i][e] - mean.center) * rstd + shift);
              sum[1][e] += g[i][e];
            }
          }
        });
  }
};

// Computes the parameters' gradients first, because dx may be g's memory.
template <class C, class Team>
void gradients_in_two_passes(const SumOutputs<2>& parameters, const Gradient& of) {
  if (parameters.any())
    sum_over_rows<C, 2>(parameters, of.rows, of.columns, AddParameterGradients<C>{of});
  for_each_row<Team>(of.rows, [=] ON_DEVICE(int64_t row) { gradient_of_row<C, Team>(of, row); });
}

// A thread's sums for its columns, of dgamma and of dbeta.
template <class C>
using ParameterSums = C[2][held<C>];

// Adds a row of one chunk. Its carried gradient loads while the averages are computed.
template <class C, class Team>
__device__ void add_gradient_of_row(ParameterSums<C>& sums, const Gradient& of, int64_t index) {
  const Row<Team, C> row(of.x, index, of.columns);
  const auto share = row.share(0);
  const Mean<C> mean = load_mean<C>(of.mean, index);
  const C rstd = load_one<C>(of.rstd, index), shift = -mean.rest * rstd;
  C u[held<C>], h[held<C>], other[held<C>], sum_u = 0, sum_uh = 0;
  load_share(u, of.g, row.begin, share, C(0));
  load_share(h, of.x, row.begin, share, C(0));
  load_share(other, of.gamma, 0, share, C(1));
#pragma unroll
  for (int e = 0; e < held<C>; ++e) {
    h[e] = (h[e] - mean.center) * rstd + shift;
    sums[0][e] += u[e] * h[e];
    sums[1][e] += u[e];
    u[e] *= other[e];
    sum_u += u[e];
    sum_uh += u[e] * h[e];
  }
  load_share(other, of.carried, row.begin, share, C(0));
  const C average_u = team_sum<Team>(sum_u) / C(of.columns);
  const C average_uh = team_sum<Team>(sum_uh) / C(of.columns);
#pragma unroll
  for (int e = 0; e < held<C>; ++e) u[e] = rstd * (u[e] - average_u - h[e] * average_uh) + other[e];
  store_share(of.dx, row.begin, share, u);
}

// Stores a block's part of one sum. If the block is the team, each thread has the sums of its
// columns; otherwise it adds up its warps' sums.
template <class C, class Team>
__device__ void store_part(C* part, const C (&sum)[held<C>], const Gradient& of) {
  const Row<Team, C> row(of.x, 0, of.columns);
  if constexpr (Team::size == threads_per_block) {
    const auto share = row.share(0);
#pragma unroll
    for (int e = 0; e < held<C>; ++e)
      if (share.has(e)) part[share.column(e)] = sum[e];
  } else {
#pragma unroll
    for (int k = 0; k < packs_held<C>; ++k) {
      C pack[pack_size];
#pragma unroll
      for (int i = 0; i < pack_size; ++i) pack[i] = sum[k * pack_size + i];
      const C total = sum_of_warps(pack);
      const int64_t column = k * tile_columns + threadIdx.x - row.shift;
      if (column >= 0 && column < of.columns) part[column] = total;
    }
  }
}

// The sums fill a thread's registers, so a multiprocessor has one such block. Large GPUs have a
// hundred and some multiprocessors.
constexpr int64_t most_blocks = 128;

template <class C, class Team>
void gradients_in_one_pass(const SumOutputs<2>& parameters, const Gradient& of) {
  constexpr int64_t teams = threads_per_block / Team::size;
  const int64_t wanted = (of.rows + teams - 1) / teams;
  const int64_t blocks = wanted < most_blocks ? wanted : most_blocks;
  const Workspace<C> space(blocks * 2 * of.columns);
  C* parts = space.data();
  for_each_block(blocks, [=] ON_DEVICE(int64_t block) {
    ParameterSums<C> sums = {};
    for (int64_t row = block * teams + Team::index(); row < of.rows; row += blocks * teams)
      add_gradient_of_row<C, Team>(sums, of, row);
#pragma unroll
    for (int k = 0; k < 2; ++k)
      store_part<C, Team>(parts + (block * 2 + k) * of.columns, sums[k], of);
  });
  add_parts<C>(parameters, parts, blocks, of.columns);
}

// Returns true if a team's threads hold a row, and the same columns of every row.
template <class C, class Team>
bool is_held(const Gradient& of) {
  return of.columns % pack_size == 0 && of.columns + of.x.shift <= Row<Team, C>::chunk_size;
}

}  // namespace

void layer_norm_backward(View dx, View dgamma, View dbeta, View g, View carried, View x, View mean,
                         View rstd, View gamma) {
  const Gradient of = {dx, g, carried, x, mean, rstd, gamma, x.rows(), x.columns()};
  const SumOutputs<2> parameters = {dgamma, dbeta};
  visit_teams(x.dtype, x.columns(), [&]<class C, class Team>(C*, Team*) {
    if (parameters.any() && is_held<C, Team>(of))
      gradients_in_one_pass<C, Team>(parameters, of);
    else
      gradients_in_two_passes<C, Team>(parameters, of);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
