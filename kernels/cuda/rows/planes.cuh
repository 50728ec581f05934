// Shared by batch norm and group norm: a contiguous tensor (n, channels, ...) as planes, one for
// each channel of each sample. Numbers belong to sets of planes: to a channel, or to a group of
// channels of one sample.
#pragma once

#include "kernels/cuda/rows/column_sums.cuh"
#include "kernels/cuda/rows/moments.cuh"

namespace booster::kernels::BOOSTER_VARIANT {

struct Planes {
  // Makes planes. groups: 0 for sets that are channels, else groups of channels per sample.
  Planes(const View& x, int64_t groups) : channels(x.shape[1]), count(x.shape[0] * channels) {
    size = count ? x.size() / count : 0;
    of_group = groups ? channels / groups : 0;
  }
  __device__ int64_t set_of(int64_t plane) const {
    return of_group ? plane / of_group : plane % channels;
  }
  int64_t channels, count;
  int64_t size;      // elements of a plane
  int64_t of_group;  // channels of a group; 0 for batch norm
};

// Origins of each row's numbers: the first number of its set. There are `sets` sets, with their
// first rows in order.
template <class C>
struct Origins {
  Operand x;
  int64_t sets, columns;
  __device__ C of_row(int64_t row) const {
    return columns > 0 ? load_one<C>(x, row % sets * columns) : C(0);
  }
};

// Computes each row's mean distance from the origin, and sum of squared deviations.
template <class C, class Team>
void moments_of_rows(C* distances, C* squares, Origins<C> origins, int64_t rows) {
  const Operand x = origins.x;
  const int64_t columns = origins.columns;
  for_each_row<Team>(rows, [=] ON_DEVICE(int64_t index) {
    const Row<Team, C> row(x, index, columns);
    Moments<C> moments = {origins.of_row(index)};
    for (int64_t chunk = 0; chunk < row.chunks(); ++chunk) {
      const auto share = row.share(chunk);
      C value[held<C>];
      load_share(value, x, row.begin, share, C(0));
      moments.measure(value, share);
      moments.add(value, share);
    }
    moments = moments.template of_team<Team>(columns);
    if (Team::rank() != 0) return;
    distances[index] = moments.distance;
    squares[index] = moments.squares;
  });
}

// Sets y = f(numbers of the plane, x[0], x[1], ...) for each element of a tensor of planes.
// f.of_plane(plane) gives these numbers.
template <class C, int inputs, class F>
struct PlaneMap {
  Operand y, x[inputs];
  Planes planes;
  F f;

  // Maps one pack, which may have elements of several planes.
  __device__ void operator()(int64_t first) const {
    const TileShare share(first, planes.count * planes.size);
    if (share.mask == 0) return;
    C value[inputs][pack_size];
#pragma unroll
    for (int k = 0; k < inputs; ++k) load_share(value[k], x[k], 0, share, C(0));
    int from = first < 0 ? static_cast<int>(-first) : 0;
    int64_t plane = (first + from) / planes.size;
    for (; from < pack_size && share.has(from); ++plane) {
      const int64_t end = (plane + 1) * planes.size - first;
      const int to = end < pack_size ? static_cast<int>(end) : pack_size;
      const auto numbers = f.of_plane(plane);
#pragma unroll
      for (int i = 0; i < pack_size; ++i)
        if (i >= from && i < to) value[0][i] = f(numbers, value[0][i], value[inputs - 1][i]);
      from = to;
    }
    store_share(y, 0, share, value[0]);
  }
};

template <class C, int inputs, class F>
void map_planes(const PlaneMap<C, inputs, F>& map) {
  const int64_t shift = map.x[0].shift, size = map.planes.count * map.planes.size;
  if (size == 0) return;
  for_each_item((size + shift + pack_size - 1) / pack_size,
                [=] ON_DEVICE(int64_t i) { map(i * pack_size - shift); });
}

// (x - mean) rstd gamma + beta
template <class C>
struct Normalize {
  struct Numbers {
    C center, scale, shift;
  };
  Planes planes;
  const Mean<C>* mean;  // of each set
  const C* rstd;
  Operand gamma, beta;
  __device__ Numbers of_plane(int64_t plane) const {
    const int64_t set = planes.set_of(plane), channel = plane % planes.channels;
    const C scale = rstd[set] * load_one(gamma, channel, C(1));
    return {mean[set].center, scale, load_one(beta, channel, C(0)) - mean[set].rest * scale};
  }
  __device__ C operator()(const Numbers& of, C x, C) const {
    return (x - of.center) * of.scale + of.shift;
  }
};

// A set's numbers for dx = scale (gamma g - average - (x - center) along).
template <class C>
struct SetGradient {
  C center, scale, average, along;

  // Makes it from the average of gamma g, and the factor of x - mean.
  __device__ SetGradient(const Mean<C>& mean, C scale_, C average_, C along_)
      : center(mean.center), scale(scale_), average(average_ - mean.rest * along_), along(along_) {}
};
template <class C>
struct PlaneGradient {
  struct Numbers {
    SetGradient<C> set;
    C gamma;
  };
  Planes planes;
  const SetGradient<C>* sets;
  Operand gamma;
  __device__ Numbers of_plane(int64_t plane) const {
    return {sets[planes.set_of(plane)], load_one(gamma, plane % planes.channels, C(1))};
  }
  __device__ C operator()(const Numbers& of, C g, C x) const {
    const C distance = counted(x - of.set.center, of.set.along);
    return of.set.scale * (of.gamma * g - of.set.average - distance * of.set.along);
  }
};

struct PlaneInputs {
  Operand g, x, mean, rstd;
};

// Sums g (x - mean) rstd and g over each plane: the parts of dgamma and dbeta. `sums` has one row
// per sample, with dgamma's part of all channels and then dbeta's.
template <class C, class Team>
void parameter_gradients_of_planes(C* sums, PlaneInputs in, Planes planes) {
  for_each_row<Team>(planes.count, [=] ON_DEVICE(int64_t plane) {
    const Row<Team, C> row(in.x, plane, planes.size);
    const int64_t set = planes.set_of(plane);
    const Mean<C> mean = load_mean<C>(in.mean, set);
    C sum = 0, product = 0;
    for (int64_t chunk = 0; chunk < row.chunks(); ++chunk) {
      C g[held<C>], x[held<C>];
      load_share(g, in.g, row.begin, row.share(chunk), C(0));
      load_share(x, in.x, row.begin, row.share(chunk), C(0));
#pragma unroll
      for (int e = 0; e < held<C>; ++e) {
        sum += g[e];
        product += g[e] * (x[e] - mean.center);
      }
    }
    sum = team_sum<Team>(sum);
    product = team_sum<Team>(product) - mean.rest * sum;
    if (Team::rank() != 0) return;
    const int64_t sample = plane / planes.channels, channel = plane % planes.channels;
    C* of_sample = sums + sample * 2 * planes.channels;
    of_sample[channel] = load_one<C>(in.rstd, set) * product;
    of_sample[planes.channels + channel] = sum;
  });
}

// Sets totals = the sums of all samples' parts.
template <class C>
void sum_samples(C* totals, C* sums, const Planes& planes) {
  const int64_t samples = planes.channels ? planes.count / planes.channels : 0;
  const int64_t columns = 2 * planes.channels;
  sum_over_rows<C, 1>({operand(totals)}, samples, columns, AddElements<C>{operand(sums), columns});
}

}  // namespace booster::kernels::BOOSTER_VARIANT
