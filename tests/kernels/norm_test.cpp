// Batch norm and group norm against plain loops.
#include "tests/kernels/everywhere.h"

using namespace booster;
using namespace booster::kernels::test;
using kernels::Table;
using kernels::View;

namespace {

constexpr double eps = 1e-3;

// x (n, channels, plane) cut into sets of elements with common statistics: a channel for batch
// norm, a group of channels in one sample for group norm.
struct Sets {
  int64_t channels, plane, count;
  std::function<int64_t(int64_t sample, int64_t channel)> set_of;
};

Sets by_channel(const std::vector<int64_t>& shape, int64_t plane) {
  return {shape[1], plane, shape[1], [](int64_t, int64_t channel) { return channel; }};
}
Sets by_group(const std::vector<int64_t>& shape, int64_t plane, int64_t groups) {
  const int64_t size = shape[1] / groups;
  return {shape[1], plane, shape[0] * groups,
          [=](int64_t sample, int64_t channel) { return sample * groups + channel / size; }};
}

template <class Body>
void for_each_element(const Numbers& x, const Sets& sets, Body&& body) {
  for (size_t i = 0; i < x.size(); ++i) {
    const auto plane = static_cast<int64_t>(i) / sets.plane;
    const int64_t sample = plane / sets.channels, channel = plane % sets.channels;
    body(i, channel, sets.set_of(sample, channel));
  }
}

struct Statistics {
  Numbers mean, variance, rstd, count;
};

Statistics statistics(const Numbers& x, const Sets& sets) {
  const auto n = static_cast<size_t>(sets.count);
  Statistics s = {Numbers(n), Numbers(n), Numbers(n), Numbers(n)};
  for_each_element(x, sets, [&](size_t i, int64_t, int64_t set) {
    s.mean[set] += x[i];
    ++s.count[set];
  });
  for (size_t set = 0; set < n; ++set) s.mean[set] /= s.count[set];
  for_each_element(x, sets, [&](size_t i, int64_t, int64_t set) {
    s.variance[set] += std::pow(x[i] - s.mean[set], 2) / s.count[set];
  });
  for (size_t set = 0; set < n; ++set) s.rstd[set] = 1 / std::sqrt(s.variance[set] + eps);
  return s;
}

Numbers normalized(const Numbers& x, const Sets& sets, const Statistics& s, const Numbers& gamma,
                   const Numbers& beta) {
  Numbers y(x.size());
  for_each_element(x, sets, [&](size_t i, int64_t channel, int64_t set) {
    y[i] = (x[i] - s.mean[set]) * s.rstd[set] * gamma[channel] + beta[channel];
  });
  return y;
}

struct Gradients {
  Numbers dx, dgamma, dbeta;
};

// `constant`: the statistics do not depend on x.
Gradients gradients(const Numbers& g, const Numbers& x, const Sets& sets, const Statistics& s,
                    const Numbers& gamma, bool constant) {
  Gradients out = {Numbers(x.size()), Numbers(gamma.size()), Numbers(gamma.size())};
  Numbers sum(s.mean.size()), product(s.mean.size());
  const auto h = [&](size_t i, int64_t set) { return (x[i] - s.mean[set]) * s.rstd[set]; };
  for_each_element(x, sets, [&](size_t i, int64_t channel, int64_t set) {
    sum[set] += g[i] * gamma[channel] / s.count[set];
    product[set] += g[i] * gamma[channel] * h(i, set) / s.count[set];
    out.dgamma[channel] += g[i] * h(i, set);
    out.dbeta[channel] += g[i];
  });
  for_each_element(x, sets, [&](size_t i, int64_t channel, int64_t set) {
    const double through = constant ? 0 : sum[set] + h(i, set) * product[set];
    out.dx[i] = s.rstd[set] * (g[i] * gamma[channel] - through);
  });
  return out;
}

struct Shape {
  std::vector<int64_t> sizes;
  int64_t plane, groups;
};
const Shape shapes[] = {{{4, 6, 3, 5}, 15, 3},
                        {{2, 3, 1, 1}, 1, 1},
                        {{9, 4}, 1, 2},
                        {{3, 8, 17, 16}, 272, 8},
                        {{1, 2, 40}, 40, 1}};

// Planes, and channels-last images: with few or many channels, in one block or several, and with
// rows that fill neither.
struct Images {
  std::vector<int64_t> sizes;
  int64_t plane;
  bool channels_last;
  Plain numbers(DType dtype, int seed) const {
    const Plain x = random(dtype, sizes, seed);
    return channels_last ? kernels::test::channels_last(x) : x;
  }
};

std::vector<Images> all_images() {
  std::vector<Images> images;
  for (const auto& [sizes, plane, groups] : shapes) images.push_back({sizes, plane, false});
  for (const std::vector<int64_t>& sizes : std::vector<std::vector<int64_t>>{{2, 3, 5, 7},
                                                                             {3, 16, 13, 9},
                                                                             {1, 130, 6, 7},
                                                                             {2, 64, 9, 17},
                                                                             {1, 4099, 2, 1},
                                                                             {5, 2, 31, 33}})
    images.push_back({sizes, sizes[2] * sizes[3], true});
  return images;
}

void check_batch_norm(const Images& images, DType dtype, bool training) {
  const int64_t c = images.sizes[1];
  const Sets sets = by_channel(images.sizes, images.plane);
  const Plain x = images.numbers(dtype, 1), y = images.numbers(dtype, 9);
  const Plain gamma = random(DType::f32, {c}, 2), beta = random(DType::f32, {c}, 3);
  const Plain mean = zeros(wide(dtype), {c}), rstd = zeros(wide(dtype), {c});
  const Plain running_mean = zeros(DType::f32, {c}), running_var = zeros(DType::f32, {c});
  Statistics s = statistics(numbers(x), sets);
  Numbers want_mean(s.mean.size(), 1), want_var(s.mean.size(), 1);  // initial running statistics
  if (training) {
    for (size_t i = 0; i < want_mean.size(); ++i) {
      want_mean[i] = 0.75 + 0.25 * s.mean[i];
      want_var[i] = 0.75 + 0.25 * s.variance[i] * s.count[i] / (s.count[i] - 1);
    }
  } else {
    s.mean = want_mean;
    s.rstd.assign(s.rstd.size(), 1 / std::sqrt(1 + eps));
  }
  check_everywhere(
      [&](const Table& on) {
        on.batch_norm(y.view(), mean.view(), rstd.view(), x.view(), gamma.view(), beta.view(),
                      running_mean.view(), running_var.view(), training, 0.25, eps);
      },
      {{y, normalized(numbers(x), sets, s, numbers(gamma), numbers(beta)), 4},
       {mean, s.mean},
       {rstd, s.rstd, 8},
       {running_mean, want_mean, 1, 1},
       {running_var, want_var, 1, 1}});
}

void check_batch_norm_backward(const Images& images, DType dtype, bool training) {
  const int64_t c = images.sizes[1];
  const Sets sets = by_channel(images.sizes, images.plane);
  const Plain x = images.numbers(dtype, 1), g = images.numbers(dtype, 2),
              dx = images.numbers(dtype, 9);
  const Plain gamma = random(DType::f32, {c}, 3);
  const Plain dgamma = zeros(wide(dtype), {c}), dbeta = zeros(wide(dtype), {c});
  Statistics s = statistics(numbers(x), sets);
  const Plain mean = from_numbers(wide(dtype), {c}, s.mean),
              rstd = from_numbers(wide(dtype), {c}, s.rstd);
  s.mean = numbers(mean), s.rstd = numbers(rstd);
  const Gradients want = gradients(numbers(g), numbers(x), sets, s, numbers(gamma), !training);
  check_everywhere(
      [&](const Table& on) {
        on.batch_norm_backward(dx.view(), dgamma.view(), dbeta.view(), g.view(), x.view(),
                               mean.view(), rstd.view(), gamma.view(), training);
      },
      {{dx, want.dx, 30}, {dgamma, want.dgamma, 30}, {dbeta, want.dbeta, 30}});
}

// Returns relu(y + residual), with y rounded before and after, as in two separate steps.
Numbers relu(const Numbers& y, const Plain* residual, DType dtype) {
  const std::vector<int64_t> shape = {static_cast<int64_t>(y.size())};
  Numbers sum = residual ? numbers(from_numbers(dtype, shape, y)) : y;
  const Numbers added = residual ? numbers(*residual) : Numbers(y.size());
  for (size_t i = 0; i < y.size(); ++i) sum[i] = std::max(sum[i] + added[i], 0.0);
  return sum;
}
// Returns the gradient where relu passes it, else 0.
Numbers where_positive(Numbers g, const Numbers& y) {
  for (size_t i = 0; i < g.size(); ++i)
    if (y[i] <= 0) g[i] = 0;
  return g;
}

void check_batch_norm_relu(const Images& images, DType dtype, bool training, bool adds) {
  const int64_t c = images.sizes[1];
  const Sets sets = by_channel(images.sizes, images.plane);
  const Plain x = images.numbers(dtype, 1), residual = images.numbers(dtype, 4),
              y = images.numbers(dtype, 9), g = images.numbers(dtype, 2),
              dx = images.numbers(dtype, 8), dresidual = images.numbers(dtype, 7);
  const Plain gamma = random(DType::f32, {c}, 2), beta = random(DType::f32, {c}, 3);
  const Plain dgamma = zeros(wide(dtype), {c}), dbeta = zeros(wide(dtype), {c});
  Statistics s = statistics(numbers(x), sets);
  const Plain mean = from_numbers(wide(dtype), {c}, s.mean),
              rstd = from_numbers(wide(dtype), {c}, s.rstd);
  const Plain running_mean = from_numbers(wide(dtype), {c}, s.mean),
              running_var = from_numbers(wide(dtype), {c}, s.variance);
  s.mean = numbers(mean), s.rstd = numbers(rstd);
  const View added = adds ? residual.view() : View{};
  const Numbers want_y = relu(normalized(numbers(x), sets, s, numbers(gamma), numbers(beta)),
                              adds ? &residual : nullptr, dtype);
  check_everywhere(
      [&](const Table& on) {
        on.batch_norm_relu(y.view(), mean.view(), rstd.view(), x.view(), added, gamma.view(),
                           beta.view(), running_mean.view(), running_var.view(), training, 0.0,
                           eps);
      },
      {{y, want_y, 6}, {mean, s.mean, 4}, {rstd, s.rstd, 8}});
  // For values so close to zero that rounding decides the sign, uses the kernel's own y.
  const Numbers passed = where_positive(numbers(g), numbers(y));
  const Gradients want = gradients(passed, numbers(x), sets, s, numbers(gamma), !training);
  std::vector<Expected> results = {
      {dx, want.dx, 30}, {dgamma, want.dgamma, 30}, {dbeta, want.dbeta, 30}};
  if (adds) results.push_back({dresidual, passed});
  check_everywhere(
      [&](const Table& on) {
        on.batch_norm_relu_backward(dx.view(), adds ? dresidual.view() : View{}, dgamma.view(),
                                    dbeta.view(), g.view(), adds ? y.view() : View{}, x.view(),
                                    mean.view(), rstd.view(), gamma.view(), beta.view(), training);
      },
      results);
}

template <class Check>
void for_each_batch(Check&& check) {
  for (const DType dtype : floating_dtypes)
    for (const Images& images : all_images())
      for (const bool training : {true, false}) {
        CAPTURE(name_of(dtype));
        CAPTURE(images.channels_last);
        check(images, dtype, training);
      }
}

}  // namespace

TEST_CASE("batch_norm equals a loop in double and updates running statistics, variance unbiased") {
  for_each_batch(check_batch_norm);
}

TEST_CASE("batch_norm_backward equals a loop in double, through batch and constant statistics") {
  for_each_batch(check_batch_norm_backward);
}

TEST_CASE("batch_norm_relu equals a loop in double, with and without a residual, and backward") {
  for_each_batch([](const Images& images, DType dtype, bool training) {
    if (!images.channels_last) return;
    check_batch_norm_relu(images, dtype, training, false);
    check_batch_norm_relu(images, dtype, training, true);
  });
}

TEST_CASE("batch_norm in evaluation uses the running statistics and leaves them") {
  const std::vector<int64_t> shape = {2, 3, 4, 4};
  const Plain x = random(DType::f32, shape, 1), y = zeros(DType::f32, shape);
  const Plain running_mean = random(DType::f32, {3}, 2),
              running_var = from_numbers(DType::f32, {3}, {1, 4, 0.25});
  const Plain mean = zeros(DType::f32, {3}), rstd = zeros(DType::f32, {3});
  Statistics s = {numbers(running_mean), {}, {}, {}};
  for (const double variance : numbers(running_var))
    s.rstd.push_back(1 / std::sqrt(variance + eps));
  const Numbers kept = numbers(running_mean);
  check_everywhere(
      [&](const Table& on) {
        on.batch_norm(y.view(), mean.view(), rstd.view(), x.view(), {}, {}, running_mean.view(),
                      running_var.view(), false, 0.25, eps);
      },
      {{y, normalized(numbers(x), by_channel(shape, 16), s, Numbers(3, 1), Numbers(3, 0)), 4}});
  CHECK(numbers(running_mean) == kept);
}

TEST_CASE("group_norm equals a loop in double") {
  for (const DType dtype : floating_dtypes)
    for (const auto& [shape, plane, groups] : shapes) {
      CAPTURE(name_of(dtype));
      const int64_t c = shape[1], n = shape[0] * groups;
      const Sets sets = by_group(shape, plane, groups);
      const Plain x = random(dtype, shape, 1), y = zeros(dtype, shape);
      const Plain gamma = random(dtype, {c}, 2), beta = random(DType::f32, {c}, 3);
      const Plain mean = zeros(wide(dtype), {n}), rstd = zeros(wide(dtype), {n});
      const Statistics s = statistics(numbers(x), sets);
      const int64_t group_count = groups;
      check_everywhere(
          [&](const Table& on) {
            on.group_norm(y.view(), mean.view(), rstd.view(), x.view(), gamma.view(), beta.view(),
                          group_count, eps);
          },
          {{y, normalized(numbers(x), sets, s, numbers(gamma), numbers(beta)), 4},
           {mean, s.mean},
           {rstd, s.rstd, 30}});
    }
}

TEST_CASE("group_norm_backward equals a loop in double") {
  for (const DType dtype : floating_dtypes)
    for (const auto& [shape, plane, groups] : shapes) {
      CAPTURE(name_of(dtype));
      const int64_t c = shape[1], n = shape[0] * groups, group_count = groups;
      const Sets sets = by_group(shape, plane, groups);
      const Plain x = random(dtype, shape, 1), g = random(dtype, shape, 2),
                  dx = zeros(dtype, shape);
      const Plain gamma = random(DType::f32, {c}, 3);
      const Plain dgamma = zeros(wide(dtype), {c}), dbeta = zeros(wide(dtype), {c});
      Statistics s = statistics(numbers(x), sets);
      const Plain mean = from_numbers(wide(dtype), {n}, s.mean),
                  rstd = from_numbers(wide(dtype), {n}, s.rstd);
      s.mean = numbers(mean), s.rstd = numbers(rstd);
      const Gradients want = gradients(numbers(g), numbers(x), sets, s, numbers(gamma), false);
      check_everywhere(
          [&](const Table& on) {
            on.group_norm_backward(dx.view(), dgamma.view(), dbeta.view(), g.view(), x.view(),
                                   mean.view(), rstd.view(), gamma.view(), group_count);
          },
          {{dx, want.dx, 60}, {dgamma, want.dgamma, 60}, {dbeta, want.dbeta, 30}});
    }
}
