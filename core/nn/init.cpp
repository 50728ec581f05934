#include "core/nn/functional.h"

#include "core/autograd/tape.h"
#include "core/tensor/absence.h"
#include "kernels/catalogue.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace booster::init {
namespace {

double cumulative(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

// Returns the inverse of the cumulative normal distribution. It starts from the tail's expansion or
// the centre's slope, then takes Newton steps on the smaller tail, which preserves relative
// accuracy.
double quantile(double p) {
  if (p > 0.5) return -quantile(1 - p);
  if (p <= 0) return -std::numeric_limits<double>::infinity();
  const double t = std::sqrt(-2 * std::log(p));
  double x = p > 0.2 ? (p - 0.5) * std::sqrt(2 * std::numbers::pi)
                     : -(t - std::log(t * std::sqrt(2 * std::numbers::pi)) / t);
  for (int step = 0; step < 50; ++step) {
    const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
    // Newton's method on log Phi(x) = log p converges from any start, because log Phi is concave.
    const double change = cumulative(x) * std::log(p / cumulative(x)) / density;
    x += change;
    if (std::abs(change) < 1e-14 * std::max(1.0, std::abs(x))) break;
  }
  return x;
}

}  // namespace

void constant(Tensor x, double value) {
  const NoGradGuard no_grad;
  x.fill_(value);
}
void zeros(Tensor x) { constant(x, 0); }
void ones(Tensor x) { constant(x, 1); }
void uniform(Tensor x, double low, double high, Generator& generator) {
  fill_uniform(x, low, high, generator);
}
void normal(Tensor x, double mean, double std, Generator& generator) {
  fill_normal(x, mean, std, generator);
}

void truncated_normal(Tensor x, double mean, double std, double low, double high,
                      Generator& generator) {
  check(std > 0 && low < high, "truncated_normal: wrong range; got std {}, {} to {}", std, low,
        high);
  // Fewer than one value in 10^15 lies beyond eight standard deviations, so do not truncate.
  if (low < mean - 8 * std && high > mean + 8 * std) return normal(x, mean, std, generator);
  const double from = cumulative((low - mean) / std), to = cumulative((high - mean) / std);
  check(to > from, "truncated_normal: the range has no probability; got mean {}, std {}, {} to {}",
        mean, std, low, high);
  write_numbers(x, [=, position = generator.take(x.numel())](const Tensor& x) {
    const Tensor draws = empty(x.shape());
    kernels::on({}).uniform(draws.view(), 0, 1, position);
    std::vector<double> values = draws.to_vector<double>();
    for (double& value : values) {
      // Takes the middle of each step of 2^-24 of the uniform value, so that neither end is
      // reached.
      const double p = from + (to - from) * (value + 0x1p-25);
      value = std::clamp(mean + std * quantile(p), low, high);
    }
    const NoGradGuard no_grad;
    Tensor(x).copy_(from_vector(values, x.shape()));
  });
}

Fans fans_of(const Tensor& weight) {
  if (weight.ndim() < 2) fail("init: want a weight (out, in, ...); got shape {}", weight.shape());
  int64_t field = 1;
  for (int i = 2; i < weight.ndim(); ++i) field *= weight.size(i);
  return {weight.size(1) * field, weight.size(0) * field};
}

namespace {

double xavier_std(const Tensor& x, double gain) {
  const Fans fans = fans_of(x);
  return gain * std::sqrt(2.0 / static_cast<double>(fans.in + fans.out));
}

double kaiming_std(const Tensor& x, double a, Fan fan) {
  const Fans fans = fans_of(x);
  return std::sqrt(2.0 / (1 + a * a) / static_cast<double>(fan == Fan::in ? fans.in : fans.out));
}

// Draws from a uniform distribution of standard deviation s, which spans +-sqrt(3) s.
void uniform_of_std(Tensor x, double std, Generator& generator) {
  if (x.numel() > 0) fill_uniform(x, -std::sqrt(3) * std, std::sqrt(3) * std, generator);
}

}  // namespace

void xavier_uniform(Tensor x, double gain, Generator& generator) {
  uniform_of_std(x, xavier_std(x, gain), generator);
}
void xavier_normal(Tensor x, double gain, Generator& generator) {
  fill_normal(x, 0, xavier_std(x, gain), generator);
}
void kaiming_uniform(Tensor x, double a, Fan fan, Generator& generator) {
  uniform_of_std(x, kaiming_std(x, a, fan), generator);
}
void kaiming_normal(Tensor x, double a, Fan fan, Generator& generator) {
  fill_normal(x, 0, kaiming_std(x, a, fan), generator);
}

void layer_default(Tensor weight, Tensor bias, Generator& generator) {
  kaiming_uniform(weight, std::sqrt(5), Fan::in, generator);
  if (!bias.defined()) return;
  const int64_t inputs = fans_of(weight).in;
  const double bound = inputs > 0 ? 1 / std::sqrt(static_cast<double>(inputs)) : 0;
  fill_uniform(bias, -bound, bound, generator);
}

}  // namespace booster::init
