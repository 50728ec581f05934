// Batch normalisation of (n, channels, ...) over n and space (Ioffe and Szegedy, 2015). A channel
// of one sample is a contiguous plane; each channel is one block of work.
#include "kernels/row_statistics.h"
#include "kernels/rows.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

thread_local Scratch first_buffer, second_buffer, output_buffer;

struct Channel {
  int64_t samples, channels, plane, channel;  // plane: elements of a channel in one sample

  int64_t count() const { return samples * plane; }
  // Calls body(element) with the first element of each of its planes.
  template <class Body>
  void for_each_plane(Body&& body) const {
    for (int64_t sample = 0; sample < samples; ++sample)
      body((sample * channels + channel) * plane);
  }
};

template <class Body>
void for_each_channel(const View& x, Body&& body) {
  const int64_t channels = x.shape[1], planes = x.shape[0] * channels;
  const int64_t plane = planes ? x.size() / planes : 0;
  for_each_block(channels, [&](int64_t channel) {
    body(Channel{x.shape[0], channels, plane, channel});
  });
}

template <class C>
struct Moments {
  C mean, variance;
};

// Sums of planes are added up in double: there may be many.
template <class C>
Moments<C> moments_of(const View& x, const Channel& channel) {
  const int64_t plane = channel.plane;
  C* buffer = first_buffer.get<C>(plane);
  double sum = 0;
  channel.for_each_plane(
      [&](int64_t element) { sum += double(row_sum(read_row(x, element, plane, buffer), plane)); });
  const C mean = C(sum / double(channel.count()));
  double squares = 0;
  channel.for_each_plane([&](int64_t element) {
    const C* values = read_row(x, element, plane, buffer);
    squares += double(sum_of_squared_deviations(values, plane, mean));
  });
  return {mean, C(squares / double(channel.count()))};
}

template <class C>
void update_running(const View& running, int64_t i, C value, double momentum) {
  const C old = load_scalar(running, i, C(0));
  store_scalar(running, i, C((1 - momentum) * double(old) + momentum * double(value)));
}

template <class C>
void normalize_channel(const View& y, const View& x, const Channel& channel, C mean, C scale,
                       C shift) {
  const int64_t plane = channel.plane;
  C* buffer = first_buffer.get<C>(plane);
  C* out_buffer = output_buffer.get<C>(plane);
  channel.for_each_plane([&](int64_t element) {
    const C* values = read_row(x, element, plane, buffer);
    C* out = row_target(y, element, out_buffer);
#pragma omp simd
    for (int64_t i = 0; i < plane; ++i) out[i] = (values[i] - mean) * scale + shift;
    write_row(y, element, plane, out);
  });
}

template <class C>
struct GradientSums {
  C gradient, product;  // of g, and of g (x - mean)
};

template <class C>
GradientSums<C> gradient_sums(const View& g, const View& x, const Channel& channel, C mean) {
  const int64_t plane = channel.plane;
  C* buffer = first_buffer.get<C>(plane);
  C* gradient = second_buffer.get<C>(plane);
  double sum = 0, product = 0;
  channel.for_each_plane([&](int64_t element) {
    const C* values = read_row(x, element, plane, buffer);
    const C* upper = read_row(g, element, plane, gradient);
    sum += double(row_sum(upper, plane));
    product += double(sum_of<C>(plane, [=](int64_t i) { return upper[i] * (values[i] - mean); }));
  });
  return {C(sum), C(product)};
}

// dx = factor (g - average - (x - mean) along)
template <class C>
void backward_channel(const View& dx, const View& g, const View& x, const Channel& channel, C mean,
                      C factor, C average, C along) {
  const int64_t plane = channel.plane;
  C* buffer = first_buffer.get<C>(plane);
  C* gradient = second_buffer.get<C>(plane);
  C* out_buffer = output_buffer.get<C>(plane);
  channel.for_each_plane([&](int64_t element) {
    const C* values = read_row(x, element, plane, buffer);
    const C* upper = read_row(g, element, plane, gradient);
    C* out = row_target(dx, element, out_buffer);
#pragma omp simd
    for (int64_t i = 0; i < plane; ++i)
      out[i] = factor * (upper[i] - average - (values[i] - mean) * along);
    write_row(dx, element, plane, out);
  });
}

}  // namespace

void batch_norm(View y, View mean, View rstd, View x, View gamma, View beta, View running_mean,
                View running_var, bool training, double momentum, double eps) {
  visit_compute(x.dtype, [&](auto* compute) {
    using C = __typeof__(*compute + 0);
    for_each_channel(x, [&](const Channel& channel) {
      const int64_t c = channel.channel;
      Moments<C> moments = {load_scalar(running_mean, c, C(0)), load_scalar(running_var, c, C(1))};
      if (training) {
        moments = moments_of<C>(x, channel);
        const double n = double(channel.count());
        update_running(running_mean, c, moments.mean, momentum);
        update_running(running_var, c, C(double(moments.variance) * n / (n - 1)), momentum);
      }
      const C inverse = C(1) / sqrt_(moments.variance + C(eps));
      store_scalar(mean, c, moments.mean);
      store_scalar(rstd, c, inverse);
      normalize_channel(y, x, channel, moments.mean, inverse * load_scalar(gamma, c, C(1)),
                        load_scalar(beta, c, C(0)));
    });
  });
}

// With h = (x - mean) rstd over a channel of `count` elements:
//   dgamma = sum(g h), dbeta = sum(g), dx = gamma rstd (g - dbeta / count - h dgamma / count)
// where the statistics were the batch's, and dx = gamma rstd g where they were constants.
void batch_norm_backward(View dx, View dgamma, View dbeta, View g, View x, View mean, View rstd,
                         View gamma, bool training) {
  visit_compute(x.dtype, [&](auto* compute) {
    using C = __typeof__(*compute + 0);
    for_each_channel(x, [&](const Channel& channel) {
      const int64_t c = channel.channel;
      const C center = load_scalar<C>(mean, c), inverse = load_scalar<C>(rstd, c);
      const GradientSums<C> sums = gradient_sums(g, x, channel, center);
      store_scalar(dbeta, c, sums.gradient);
      store_scalar(dgamma, c, sums.product * inverse);
      const C share = training ? C(1) / C(channel.count()) : C(0);
      backward_channel(dx, g, x, channel, center, inverse * load_scalar(gamma, c, C(1)),
                       sums.gradient * share, sums.product * inverse * inverse * share);
    });
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
