// Group normalisation of (n, channels, ...), as kernels/rows/group_norm.cpp defines it. A group of
// a sample is contiguous: a row.
#include "kernels/cuda/rows/planes.cuh"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

// Replaces the sums of squared deviations by the groups' reciprocal standard deviations.
template <class C>
void finish_statistics(Mean<C>* means, C* squares, const C* distances, Origins<C> origins,
                       Operand mean, Operand rstd, double eps) {
  for_each_item(origins.sets, [=] ON_DEVICE(int64_t i) {
    const Moments<C> moments = {origins.of_row(i), C(origins.columns), distances[i], squares[i]};
    means[i] = moments.mean();
    squares[i] = moments.rstd(eps);
    store_one(mean, i, means[i].whole());
    store_one(rstd, i, squares[i]);
  });
}

// Computes the numbers for dx, a warp per group. With u = g gamma, dx = rstd (u - average(u) - h
// average(u h)); the averages follow from the sums of the group's channels.
template <class C>
void gradients_of_groups(SetGradient<C>* sets, const C* sums, PlaneInputs in, Operand gamma,
                         Planes planes, int64_t groups) {
  for_each_row<WarpTeam>(planes.count / planes.of_group, [=] ON_DEVICE(int64_t group) {
    const C* dgamma = sums + group / groups * 2 * planes.channels;
    const C* dbeta = dgamma + planes.channels;
    const int64_t first = group % groups * planes.of_group;
    C sum_u = 0, sum_uh = 0;
    for (int64_t i = WarpTeam::rank(); i < planes.of_group; i += WarpTeam::size) {
      const C factor = load_one(gamma, first + i, C(1));
      sum_u += factor * dbeta[first + i];
      sum_uh += factor * dgamma[first + i];
    }
    sum_u = team_sum<WarpTeam>(sum_u);
    sum_uh = team_sum<WarpTeam>(sum_uh);
    if (WarpTeam::rank() != 0) return;
    const C size = C(planes.of_group * planes.size), rstd = load_one<C>(in.rstd, group);
    sets[group] = {load_mean<C>(in.mean, group), rstd, sum_u / size, rstd * sum_uh / size};
  });
}

}  // namespace

void group_norm(View y, View mean, View rstd, View x, View gamma, View beta, int64_t groups,
                double eps) {
  const Planes planes(x, groups);
  const int64_t rows = x.shape[0] * groups, columns = planes.of_group * planes.size;
  visit_teams(x.dtype, columns, [&]<class C, class Team>(C*, Team*) {
    const Workspace<C> space(2 * rows);
    C* rstds = space.data() + rows;
    const Workspace<Mean<C>> means(rows);
    const Origins<C> origins = {x, rows, columns};
    moments_of_rows<C, Team>(space.data(), rstds, origins, rows);
    finish_statistics(means.data(), rstds, space.data(), origins, mean, rstd, eps);
    const Normalize<C> normalize = {planes, means.data(), rstds, gamma, beta};
    map_planes(PlaneMap<C, 1, Normalize<C>>{y, {x}, planes, normalize});
  });
}

void group_norm_backward(View dx, View dgamma, View dbeta, View g, View x, View mean, View rstd,
                         View gamma, int64_t groups) {
  const Planes planes(x, groups);
  const int64_t channels = planes.channels;
  const PlaneInputs in = {g, x, mean, rstd};
  visit_teams(x.dtype, planes.size, [&]<class C, class Team>(C*, Team*) {
    const Workspace<C> sums(2 * planes.count), totals(2 * channels);
    parameter_gradients_of_planes<C, Team>(sums.data(), in, planes);
    if (const SumOutputs<2> to = {dgamma, dbeta}; to.any()) {
      sum_samples(totals.data(), sums.data(), planes);
      add_parts<C>(to, totals.data(), 1, channels);
    }
    const Workspace<SetGradient<C>> sets(x.shape[0] * groups);
    gradients_of_groups(sets.data(), sums.data(), in, gamma, planes, groups);
    const PlaneGradient<C> gradient = {planes, sets.data(), gamma};
    map_planes(PlaneMap<C, 2, PlaneGradient<C>>{dx, {g, x}, planes, gradient});
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
