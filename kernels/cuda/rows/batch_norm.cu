// Batch normalisation of (n, channels, ...), as kernels/rows/batch_norm.cpp defines it. Statistics
// of the planes are merged over the samples.
#include "kernels/cuda/rows/planes.cuh"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

struct Running {
  Operand mean, var;
  double momentum;

  __device__ void blend(const Operand& running, int64_t channel, double value) const {
    const double old = load_one<double>(running, channel);
    store_one(running, channel, (1 - momentum) * old + momentum * value);
  }
  // Updates the running statistics, with the unbiased variance.
  template <class C>
  __device__ void update(int64_t channel, const Moments<C>& moments, int64_t count) const {
    const double n = double(count);
    blend(mean, channel, moments.mean().whole());
    blend(var, channel, double(moments.squares / C(count)) * n / (n - 1));
  }
};

// The statistics of the channels: in the compute type, and in the caller's tensors.
template <class C>
struct ChannelStatistics {
  Mean<C>* means;
  C* rstds;
  Operand mean, rstd;
  double eps;

  __device__ void store(int64_t channel, const Mean<C>& center, C variance) const {
    const C inverse = C(1) / sqrt_(variance + C(eps));
    means[channel] = center;
    rstds[channel] = inverse;
    store_one(mean, channel, center.whole());
    store_one(rstd, channel, inverse);
  }
};

// Merges the planes' statistics, a block per channel.
template <class C>
void merge_planes(ChannelStatistics<C> out, Running running, const C* distances, const C* squares,
                  Origins<C> origins, Planes planes) {
  const int64_t samples = planes.count / planes.channels, all = samples * planes.size;
  for_each_row<BlockTeam>(planes.channels, [=] ON_DEVICE(int64_t channel) {
    const C origin = origins.of_row(channel);
    Moments<C> moments = {origin};
    if (planes.size > 0)
      for (int64_t sample = BlockTeam::rank(); sample < samples; sample += BlockTeam::size) {
        const int64_t plane = sample * planes.channels + channel;
        moments.merge({origin, C(planes.size), distances[plane], squares[plane]});
      }
    moments = moments.template of_team<BlockTeam>(all);
    if (BlockTeam::rank() != 0) return;
    running.update(channel, moments, all);
    out.store(channel, moments.mean(), moments.squares / C(all));
  });
}

template <class C, class Team>
void measure_channels(const ChannelStatistics<C>& out, const Running& running, Operand x,
                      const Planes& planes) {
  const Workspace<C> moments(2 * planes.count);
  C* squares = moments.data() + planes.count;
  const Origins<C> origins = {x, planes.channels, planes.size};
  moments_of_rows<C, Team>(moments.data(), squares, origins, planes.count);
  merge_planes(out, running, moments.data(), squares, origins, planes);
}

template <class C>
void take_running(ChannelStatistics<C> out, Running running, int64_t channels) {
  for_each_item(channels, [=] ON_DEVICE(int64_t channel) {
    out.store(channel, load_mean<C>(running.mean, channel), load_one(running.var, channel, C(1)));
  });
}

// Stores dgamma and dbeta, and the numbers for dx. With h = (x - mean) rstd over a channel of
// `count` elements: dx = gamma rstd (g - dbeta / count - h dgamma / count) if the statistics were
// the batch's, and dx = gamma rstd g if they were constants.
template <class C>
void gradients_of_channels(SetGradient<C>* sets, Operand dgamma, Operand dbeta, const C* totals,
                           PlaneInputs in, Operand gamma, int64_t channels, C share) {
  for_each_item(channels, [=] ON_DEVICE(int64_t c) {
    const C inverse = load_one<C>(in.rstd, c), product = totals[c], sum = totals[channels + c];
    store_one(dgamma, c, product);
    store_one(dbeta, c, sum);
    sets[c] = {load_mean<C>(in.mean, c), inverse * load_one(gamma, c, C(1)),
               share * counted(sum, share), share * counted(product * inverse, share)};
  });
}

}  // namespace

void batch_norm(View y, View mean, View rstd, View x, View gamma, View beta, View running_mean,
                View running_var, bool training, double momentum, double eps) {
  const Planes planes(x, 0);
  if (planes.channels == 0) return;
  visit_teams(x.dtype, planes.size, [&]<class C, class Team>(C*, Team*) {
    const Workspace<Mean<C>> means(planes.channels);
    const Workspace<C> rstds(planes.channels);
    const ChannelStatistics<C> statistics = {means.data(), rstds.data(), mean, rstd, eps};
    const Running running = {running_mean, running_var, momentum};
    if (training)
      measure_channels<C, Team>(statistics, running, x, planes);
    else
      take_running(statistics, running, planes.channels);
    const Normalize<C> normalize = {planes, means.data(), rstds.data(), gamma, beta};
    map_planes(PlaneMap<C, 1, Normalize<C>>{y, {x}, planes, normalize});
  });
}

void batch_norm_backward(View dx, View dgamma, View dbeta, View g, View x, View mean, View rstd,
                         View gamma, bool training) {
  const Planes planes(x, 0);
  const int64_t channels = planes.channels, count = x.shape[0] * planes.size;
  const PlaneInputs in = {g, x, mean, rstd};
  visit_teams(x.dtype, planes.size, [&]<class C, class Team>(C*, Team*) {
    const Workspace<C> sums(2 * planes.count), totals(2 * channels);
    parameter_gradients_of_planes<C, Team>(sums.data(), in, planes);
    sum_samples(totals.data(), sums.data(), planes);
    const Workspace<SetGradient<C>> sets(channels);
    gradients_of_channels(sets.data(), dgamma, dbeta, totals.data(), in, gamma, channels,
                          training ? C(1) / C(count) : C(0));
    // The factor of its set includes the channel's gamma.
    const PlaneGradient<C> gradient = {planes, sets.data(), {}};
    map_planes(PlaneMap<C, 2, PlaneGradient<C>>{dx, {g, x}, planes, gradient});
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
