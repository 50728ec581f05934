// Batch normalisation of (n, channels, ...) over n and space (Ioffe and Szegedy, 2015). A channel
// of one sample is a contiguous plane; each channel is one block of work.
#include "kernels/rows/batch_norm.h"
#include "kernels/rows/row_statistics.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

thread_local Scratch first_buffer, second_buffer, output_buffer;

// 16-bit planes are converted in runs of this many numbers: a plane may have only 64 numbers, and
// calls and folding would cost more than its arithmetic (forward and backward in a step of
// ResNet-20 in bf16, batch 128, on two Zen 4 cores: 23 ms plane by plane, 16 ms in runs).
constexpr int64_t run_size = 1024;

struct Channel {
  int64_t samples, channels, plane, channel;  // plane: elements of a channel in one sample
  int64_t planes_per_run;

  int64_t count() const { return samples * plane; }
  int64_t element(int64_t sample) const { return (sample * channels + channel) * plane; }
  int64_t run_room() const { return planes_per_run * plane; }
  // Calls body(first sample, samples) for runs of whole planes.
  template <class Body>
  void for_each_run(Body&& body) const {
    const int64_t step = planes_per_run;
    for (int64_t first = 0; first < samples; first += step)
      body(first, first + step < samples ? step : samples - first);
  }

  // The planes of `n` samples, concatenated. Small planes are far apart in memory, where the
  // hardware prefetcher does not help, so the next run's planes are prefetched.
  template <class C>
  const C* read(const View& x, int64_t first, int64_t n, C* buffer) const {
    if (planes_per_run == 1) return read_row(x, element(first), plane, buffer);
    for (int64_t sample = first; sample < first + n; ++sample) {
      if (sample + planes_per_run < samples) prefetch_plane(x, sample + planes_per_run);
      load_run(buffer + (sample - first) * plane, plane_of(x, sample), x.dtype, 1, plane);
    }
    return buffer;
  }
  const char* plane_of(const View& x, int64_t sample) const {
    return x.as<const char>() + element(sample) * size_of(x.dtype);
  }
  void prefetch_plane(const View& x, int64_t sample) const {
    const int64_t bytes = plane * size_of(x.dtype);
    for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(plane_of(x, sample) + at);
  }
  // Where to compute planes: in place, or in `buffer` (then call write).
  template <class C>
  C* target(const View& y, int64_t first, C* buffer) const {
    return planes_per_run == 1 ? row_target(y, element(first), buffer) : buffer;
  }
  template <class C>
  void write(const View& y, int64_t first, int64_t n, const C* values) const {
    for (int64_t i = 0; i < n; ++i) write_row(y, element(first + i), plane, values + i * plane);
  }
};

template <class Body>
void for_each_channel(const View& x, Body&& body) {
  const int64_t channels = x.shape[1], planes = x.shape[0] * channels;
  const int64_t plane = planes ? x.size() / planes : 0;
  const int64_t per_run =
      is_16_bit(x.dtype) && plane > 0 && plane < run_size ? run_size / plane : 1;
  for_each_block(channels, [&](int64_t channel) {
    body(Channel{x.shape[0], channels, plane, channel, per_run});
  });
}

// Sums of runs are accumulated in double: there may be many.
template <class C>
Mean<C> mean_of(const View& x, const Channel& channel) {
  C* buffer = first_buffer.get<C>(channel.run_room());
  double sum = 0;
  channel.for_each_run([&](int64_t first, int64_t n) {
    sum += double(row_sum(channel.read(x, first, n, buffer), n * channel.plane));
  });
  return {C(sum / double(channel.count())), C(0)};
}

// From an origin among the numbers.
template <class C>
Mean<C> mean_far_from_zero(const View& x, const Channel& channel) {
  C* buffer = first_buffer.get<C>(channel.run_room());
  const C origin = load_scalar<C>(x, channel.element(0));
  double sum = 0;
  channel.for_each_run([&](int64_t first, int64_t n) {
    const C* values = channel.read(x, first, n, buffer);
    sum += double(sum_of_distances(values, n * channel.plane, origin));
  });
  return Mean<C>::from(origin, sum / double(channel.count()));
}

template <class C>
Moments<C> moments_around(const Mean<C>& mean, const View& x, const Channel& channel) {
  C* buffer = first_buffer.get<C>(channel.run_room());
  double squares = 0;
  channel.for_each_run([&](int64_t first, int64_t n) {
    const C* values = channel.read(x, first, n, buffer);
    squares += double(sum_of_squared_deviations(values, n * channel.plane, mean.center));
  });
  const double variance = squares / double(channel.count());
  return {mean, C(variance - double(mean.rest) * double(mean.rest))};
}

template <class C>
Moments<C> moments_of(const View& x, const Channel& channel) {
  const Moments<C> moments = moments_around(mean_of<C>(x, channel), x, channel);
  const bool is_far = is_far_from_zero(moments.mean.center, moments.variance);
  if (!is_far || channel.count() == 0) return moments;
  return moments_around(mean_far_from_zero<C>(x, channel), x, channel);
}

template <class C>
void normalize_channel(const View& y, const View& x, const Channel& channel,
                       const Normalizing<C>& normalizing) {
  const auto [center, factor, shift] = normalizing;
  C* buffer = first_buffer.get<C>(channel.run_room());
  C* out_buffer = output_buffer.get<C>(channel.run_room());
  channel.for_each_run(
      [&, center = center, factor = factor, shift = shift](int64_t first, int64_t n) {
        const C* values = channel.read(x, first, n, buffer);
        C* out = channel.target(y, first, out_buffer);
#pragma omp simd
        for (int64_t i = 0; i < n * channel.plane; ++i)
          out[i] = (values[i] - center) * factor + shift;
        channel.write(y, first, n, out);
      });
}

struct GradientSums {
  double gradient, product;  // of g, and of g (x - center)
};

template <class C>
GradientSums gradient_sums(const View& g, const View& x, const Channel& channel, C center) {
  C* buffer = first_buffer.get<C>(channel.run_room());
  C* gradient = second_buffer.get<C>(channel.run_room());
  double sum = 0, product = 0;
  channel.for_each_run([&](int64_t first, int64_t n) {
    const C* values = channel.read(x, first, n, buffer);
    const C* upper = channel.read(g, first, n, gradient);
    const int64_t count = n * channel.plane;
    sum += double(row_sum(upper, count));
    product += double(sum_of<C>(count, [=](int64_t i) { return upper[i] * (values[i] - center); }));
  });
  return {sum, product};
}

// dx may be g's memory.
template <class C>
void backward_channel(const View& dx, const View& g, const View& x, const Channel& channel,
                      const BatchNormBackward::Terms<C>& terms) {
  const auto [center, factor, average, along] = terms;
  C* buffer = first_buffer.get<C>(channel.run_room());
  C* gradient = second_buffer.get<C>(channel.run_room());
  C* out_buffer = output_buffer.get<C>(channel.run_room());
  channel.for_each_run([&, center = center, factor = factor, average = average, along = along](
                           int64_t first, int64_t n) {
    const C* values = channel.read(x, first, n, buffer);
    const C* upper = channel.read(g, first, n, gradient);
    C* out = channel.target(dx, first, out_buffer);
#pragma omp simd
    for (int64_t i = 0; i < n * channel.plane; ++i)
      out[i] = factor * (upper[i] - average - counted(values[i] - center, along) * along);
    channel.write(dx, first, n, out);
  });
}

bool has_planes(const View& x) { return x.ndim != 4 || x.contiguous(); }

}  // namespace

void batch_norm(View y, View mean, View rstd, View x, View gamma, View beta, View running_mean,
                View running_var, bool training, double momentum, double eps) {
  const BatchNorm norm = {y,           mean,     rstd,     x,  gamma, beta, running_mean,
                          running_var, training, momentum, eps};
  if (!has_planes(x)) return batch_norm_channels_last(norm);
  visit_compute(x.dtype, [&]<class C>(C*) {
    for_each_channel(x, [&](const Channel& channel) {
      const int64_t c = channel.channel;
      const Moments<C> moments = training ? moments_of<C>(x, channel) : norm.running<C>(c);
      if (training) norm.update_running(c, moments, channel.count());
      normalize_channel(y, x, channel, norm.finish(c, moments));
    });
  });
}

void batch_norm_backward(View dx, View dgamma, View dbeta, View g, View x, View mean, View rstd,
                         View gamma, bool training) {
  const BatchNormBackward norm = {dx, dgamma, dbeta, g, x, mean, rstd, gamma, training};
  if (!has_planes(x)) return batch_norm_channels_last(norm);
  visit_compute(x.dtype, [&]<class C>(C*) {
    for_each_channel(x, [&](const Channel& channel) {
      const int64_t c = channel.channel;
      const auto [gradient, product] = gradient_sums(g, x, channel, load_mean<C>(mean, c).center);
      backward_channel(dx, g, x, channel, norm.finish<C>(c, gradient, product, channel.count()));
    });
  });
}

void batch_norm_relu(View y, View mean, View rstd, View x, View residual, View gamma, View beta,
                     View running_mean, View running_var, bool training, double momentum,
                     double eps) {
  batch_norm_channels_last(BatchNorm{y, mean, rstd, x, gamma, beta, running_mean, running_var,
                                     training, momentum, eps, true, residual});
}

void batch_norm_relu_backward(View dx, View dresidual, View dgamma, View dbeta, View g, View y,
                              View x, View mean, View rstd, View gamma, View beta, bool training) {
  batch_norm_channels_last(BatchNormBackward{dx, dgamma, dbeta, g, x, mean, rstd, gamma, training,
                                             true, beta, y, dresidual});
}

}  // namespace booster::kernels::BOOSTER_VARIANT
