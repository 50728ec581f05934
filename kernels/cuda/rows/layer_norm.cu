// Layer normalisation of rows, with or without a preceding residual addition, as
// kernels/rows/layer_norm.cpp defines them.
#include "kernels/cuda/rows/moments.cuh"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

// y = layer_norm(x); with a branch, y = layer_norm(sum) of sum = x + branch.
struct Normalization {
  Operand y, mean, rstd, x, branch, sum, gamma, beta;
  int64_t columns;
  double eps;
};

// Rounds numbers as storing them in this dtype would.
template <class C, int n>
__device__ void round_to(DType dtype, C (&value)[n]) {
  visit_floating(dtype, [&]<class T>(T*) {
#pragma unroll
    for (int e = 0; e < n; ++e) {
      T rounded;
      store(&rounded, value[e]);
      value[e] = load<C>(&rounded);
    }
  });
}

// Returns the row's first number, including the branch.
template <class C>
__device__ C first_of_row(const Normalization& norm, int64_t begin) {
  if (norm.columns == 0) return C(0);
  C first[] = {load_one<C>(norm.x, begin) + load_one<C>(norm.branch, begin)};
  if (norm.branch.data) round_to(norm.sum.dtype, first);
  return first[0];
}

// Sets value = value + branch, rounded to sum's dtype, in which it will be read back.
template <class C, class Team>
__device__ void add_branch(C (&value)[held<C>], const Normalization& norm, const Row<Team, C>& row,
                           const typename Row<Team, C>::Share& share) {
  C other[held<C>];
  load_share(other, norm.branch, row.begin, share, C(0));
#pragma unroll
  for (int e = 0; e < held<C>; ++e) value[e] += other[e];
  store_share(norm.sum, row.begin, share, value);
  round_to(norm.sum.dtype, value);
}

template <class C, class Team>
__device__ void normalize_row(const Normalization& norm, int64_t index) {
  const Row<Team, C> row(norm.x, index, norm.columns);
  C value[held<C>];
  Moments<C> moments = {first_of_row<C>(norm, row.begin)};
  for (int64_t chunk = 0; chunk < row.chunks(); ++chunk) {
    const auto share = row.share(chunk);
    load_share(value, norm.x, row.begin, share, C(0));
    if (norm.branch.data) add_branch(value, norm, row, share);
    moments.measure(value, share);
    moments.add(value, share);
  }
  moments = moments.template of_team<Team>(norm.columns);
  const C rstd = moments.rstd(norm.eps);
  for (int64_t chunk = 0; chunk < row.chunks(); ++chunk) {
    const auto share = row.share(chunk);
    if (row.chunks() > 1) {
      load_share(value, norm.branch.data ? norm.sum : norm.x, row.begin, share, C(0));
      moments.measure(value, share);
    }
    C parameter[held<C>];
    load_share(parameter, norm.gamma, 0, share, C(1));
#pragma unroll
    for (int e = 0; e < held<C>; ++e)
      value[e] = (value[e] - moments.distance) * rstd * parameter[e];
    load_share(parameter, norm.beta, 0, share, C(0));
#pragma unroll
    for (int e = 0; e < held<C>; ++e) value[e] += parameter[e];
    store_share(norm.y, row.begin, share, value);
  }
  if (Team::rank() != 0) return;
  store_one(norm.mean, index, moments.mean().whole());
  store_one(norm.rstd, index, rstd);
}

template <class C, class Team>
void normalize_rows(Normalization norm, int64_t rows) {
  for_each_row<Team>(rows, [=] ON_DEVICE(int64_t row) { normalize_row<C, Team>(norm, row); });
}

}  // namespace

void residual_layer_norm(View sum, View y, View mean, View rstd, View x, View branch, View gamma,
                         View beta, double eps) {
  const Normalization norm = {y, mean, rstd, x, branch, sum, gamma, beta, x.columns(), eps};
  visit_teams(x.dtype, x.columns(), [&]<class C, class Team>(C*, Team*) {
    normalize_rows<C, Team>(norm, x.rows());
  });
}

void layer_norm(View y, View mean, View rstd, View x, View gamma, View beta, double eps) {
  residual_layer_norm({}, y, mean, rstd, x, {}, gamma, beta, eps);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
