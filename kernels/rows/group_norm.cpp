// Group normalisation of (n, channels, ...): the channels of a sample are cut into groups, each
// normalised by its own mean and variance (Wu and He, 2018). A group of a sample is contiguous.
#include "kernels/rows/row_statistics.h"
#include "kernels/walks/rows.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

thread_local Scratch input_buffer, gradient_buffer, output_buffer, gamma_buffer, beta_buffer;
thread_local Scratch sample_sums, totals;

struct Sizes {
  int64_t samples, channels, groups, plane;

  int64_t group_channels() const { return channels / groups; }
  int64_t group_size() const { return group_channels() * plane; }
  // The first channel of block `sample * groups + group`.
  int64_t first_channel(int64_t block) const { return block % groups * group_channels(); }
};

Sizes sizes_of(const View& x, int64_t groups) {
  const int64_t planes = x.shape[0] * x.shape[1];
  return {x.shape[0], x.shape[1], groups, planes ? x.size() / planes : 0};
}

// out = (x - mean) rstd gamma + beta for the planes of one group
template <class C>
void normalize_group(C* out, const C* x, const Sizes& sizes, Statistics<C> of_x, const C* gamma,
                     const C* beta) {
  for (int64_t c = 0; c < sizes.group_channels(); ++c) {
    const C scale = of_x.rstd * gamma[c], shift = beta[c] - of_x.mean.rest * scale;
    const C* from = x + c * sizes.plane;
    C* to = out + c * sizes.plane;
#pragma omp simd
    for (int64_t i = 0; i < sizes.plane; ++i) to[i] = (from[i] - of_x.mean.center) * scale + shift;
  }
}

// Per channel of a group: this sample's part of dgamma and dbeta, the sums of g h and of g.
template <class C>
void channel_sums(C* dgamma, C* dbeta, const C* g, const C* x, const Sizes& sizes,
                  Statistics<C> of_x) {
  for (int64_t c = 0; c < sizes.group_channels(); ++c) {
    const C* upper = g + c * sizes.plane;
    const C* values = x + c * sizes.plane;
    dbeta[c] = row_sum(upper, sizes.plane);
    const C product = sum_of<C>(
        sizes.plane, [=](int64_t i) { return upper[i] * (values[i] - of_x.mean.center); });
    dgamma[c] = of_x.rstd * (product - of_x.mean.rest * dbeta[c]);
  }
}

// With h = (x - mean) rstd and u = g gamma: dx = rstd (u - average(u) - h average(u h)), where the
// averages over the group follow from the sums of its channels.
template <class C>
void backward_group(C* dx, const C* g, const C* x, const Sizes& sizes, Statistics<C> of_x,
                    const C* gamma, const C* dgamma, const C* dbeta) {
  C sum_u = 0, sum_uh = 0;
  for (int64_t c = 0; c < sizes.group_channels(); ++c) {
    sum_u += gamma[c] * dbeta[c];
    sum_uh += gamma[c] * dgamma[c];
  }
  const C along = of_x.rstd * sum_uh / C(sizes.group_size());
  const C average_u = sum_u / C(sizes.group_size()) - of_x.mean.rest * along;
  for (int64_t c = 0; c < sizes.group_channels(); ++c) {
    const int64_t first = c * sizes.plane;
#pragma omp simd
    for (int64_t i = first; i < first + sizes.plane; ++i)
      dx[i] = of_x.rstd * (g[i] * gamma[c] - average_u - (x[i] - of_x.mean.center) * along);
  }
}

}  // namespace

void group_norm(View y, View mean, View rstd, View x, View gamma, View beta, int64_t groups,
                double eps) {
  const Sizes sizes = sizes_of(x, groups);
  const int64_t n = sizes.group_size();
  visit_compute(x.dtype, [&]<class C>(C*) {
    for_each_block(sizes.samples * groups, [&](int64_t block) {
      const C* values = read_row(x, block * n, n, input_buffer.get<C>(n));
      const Statistics<C> of_x = statistics_of(values, n, eps);
      of_x.store(mean, rstd, block);
      const int64_t first = sizes.first_channel(block);
      C* out = row_target(y, block * n, output_buffer.get<C>(n));
      normalize_group(out, values, sizes, of_x,
                      parameter_row(gamma, sizes.channels, C(1), gamma_buffer) + first,
                      parameter_row(beta, sizes.channels, C(0), beta_buffer) + first);
      write_row(y, block * n, n, out);
    });
  });
}

void group_norm_backward(View dx, View dgamma, View dbeta, View g, View x, View mean, View rstd,
                         View gamma, int64_t groups) {
  const Sizes sizes = sizes_of(x, groups);
  const int64_t n = sizes.group_size(), channels = sizes.channels;
  visit_compute(x.dtype, [&]<class C>(C*) {
    // A row per sample: its part of dgamma, then of dbeta.
    C* sums = sample_sums.get<C>(sizes.samples * 2 * channels);
    for_each_block(sizes.samples * groups, [&](int64_t block) {
      const int64_t first = sizes.first_channel(block);
      const C* factors = parameter_row(gamma, channels, C(1), gamma_buffer) + first;
      const auto of_x = Statistics<C>::load(mean, rstd, block);
      const C* upper = read_row(g, block * n, n, gradient_buffer.get<C>(n));
      const C* values = read_row(x, block * n, n, input_buffer.get<C>(n));
      C* dgamma_part = sums + block / groups * 2 * channels + first;
      channel_sums(dgamma_part, dgamma_part + channels, upper, values, sizes, of_x);
      C* out = row_target(dx, block * n, output_buffer.get<C>(n));
      backward_group(out, upper, values, sizes, of_x, factors, dgamma_part, dgamma_part + channels);
      write_row(dx, block * n, n, out);
    });
    const C* total = sum_over_rows<C>(sizes.samples, 2 * channels, totals,
                                      [&](int64_t begin, int64_t end, C* partial) {
                                        for (int64_t sample = begin; sample < end; ++sample)
                                          for (int64_t i = 0; i < 2 * channels; ++i)
                                            partial[i] += sums[sample * 2 * channels + i];
                                      });
    write_optional(dgamma, channels, total);
    write_optional(dbeta, channels, total + channels);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
