// Random integers and positions. Sequential draws run on the host, so that every device gets the
// same values.
#include "core/tensor/checks/first_outside.h"
#include "core/tensor/random/random.h"
#include "kernels/catalogue.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace booster {
namespace {

// Calls body(i, draw) for n draws in [0, 1) with 48 random bits each, enough for every position of
// a large set. Draws in parts that stay in a cache; these take the same random numbers as a whole.
template <class Body>
void for_each_fine_draw(int64_t n, Generator& generator, Body&& body) {
  constexpr int64_t part = 4096;
  for (int64_t first = 0; first < n; first += part) {
    const int64_t count = std::min(part, n - first);
    const Tensor pairs = uniform({2 * count}, 0, 1, {}, generator);
    const float* draws = pairs.data<float>();
    for (int64_t i = 0; i < count; ++i)
      body(first + i, double(draws[2 * i]) + double(draws[2 * i + 1]) * 0x1p-24);
  }
}

std::vector<double> fine_uniform(int64_t n, Generator& generator) {
  std::vector<double> fine(static_cast<size_t>(n));
  double* to = fine.data();
  for_each_fine_draw(n, generator, [=](int64_t i, double draw) { to[i] = draw; });
  return fine;
}

// Checks the weights of a row; returns their sum.
double total_of(std::span<const double> weights, int64_t row, int64_t n, bool replacement) {
  int64_t possible = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    check(std::isfinite(weights[i]) && weights[i] >= 0,
          "multinomial: a weight is negative or not finite; got {} for class {} in row {}",
          weights[i], i, row);
    possible += weights[i] > 0;
  }
  check(possible >= (replacement ? 1 : n),
        "multinomial: too few weights above 0; got {} in row {}, want {} for {} draws{}", possible,
        row, replacement ? 1 : n, n, replacement ? "" : " without replacement");
  return std::accumulate(weights.begin(), weights.end(), 0.0);
}

// Inverts the cumulative distribution. Rounding cannot lead past the last position with a positive
// weight.
void draw_with_replacement(std::span<const double> weights, double total,
                           std::span<const double> draws, int64_t* to) {
  std::vector<double> up_to(weights.size());
  std::partial_sum(weights.begin(), weights.end(), up_to.begin());
  size_t last = weights.size() - 1;
  while (weights[last] == 0) --last;
  for (size_t i = 0; i < draws.size(); ++i) {
    const auto found = std::upper_bound(up_to.begin(), up_to.end(), draws[i] * total);
    to[i] = std::min(found - up_to.begin(), static_cast<std::ptrdiff_t>(last));
  }
}

// Draws the first n arrivals of processes whose rates are the weights: exponential times, sorted.
void draw_without_replacement(std::span<const double> weights, std::span<const double> draws,
                              int64_t n, int64_t* to) {
  std::vector<std::pair<double, int64_t>> arrivals;
  for (size_t i = 0; i < weights.size(); ++i)
    if (weights[i] > 0)
      arrivals.emplace_back(-std::log1p(-draws[i]) / weights[i], static_cast<int64_t>(i));
  std::partial_sort(arrivals.begin(), arrivals.begin() + n, arrivals.end());
  for (int64_t i = 0; i < n; ++i) to[i] = arrivals[static_cast<size_t>(i)].second;
}

}  // namespace

Tensor randint(int64_t low, int64_t high, const Shape& shape, Device device, Generator& generator) {
  check(low < high, "randint: empty range; got {} to below {}", low, high);
  const uint64_t count = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  check(count <= uint64_t{1} << 48,
        "randint: range too large; got {} to {}, want at most 2^48 numbers", low, high);
  const Tensor y = empty(shape, {.dtype = DType::i64});
  int64_t* numbers = y.data<int64_t>();
  const auto range = static_cast<double>(count);
  for_each_fine_draw(shape.numel(), generator, [=](int64_t i, double draw) {
    numbers[i] = low + static_cast<int64_t>(draw * range);
  });
  return untracked::to(y, device);
}

Tensor bernoulli(const Tensor& p, Generator& generator) {
  check(p.defined() && is_floating(p.dtype()), "bernoulli: want floating probabilities; got {}",
        p.defined() ? name_of(p.dtype()) : "an undefined tensor");
  if (p.numel() == 0) return empty(p.shape(), {p.dtype(), p.device()});
  if (const int64_t at = first_outside(p, 0, 1); at >= 0)
    fail("bernoulli: not a probability; got {} at position {}, want 0 to 1",
         p.to_vector<double>()[static_cast<size_t>(at)], at);
  const DType dtype = p.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor draws = uniform(p.shape(), 0, 1, {dtype, p.device()}, generator);
  const Tensor hits = empty(p.shape(), {DType::boolean, p.device()});
  kernels::on(p.device()).compare(kernels::CompareOp::less, hits.view(), draws.view(), p.view());
  return untracked::cast(hits, p.dtype());
}

Tensor multinomial(const Tensor& weights, int64_t n, bool replacement, Generator& generator) {
  check(weights.defined() && is_floating(weights.dtype()) &&
            (weights.ndim() == 1 || weights.ndim() == 2),
        "multinomial: want floating weights (classes) or (rows, classes); got {}",
        weights.defined() ? fmt::format("{} {}", name_of(weights.dtype()), weights.shape())
                          : "an undefined tensor");
  const int64_t classes = weights.size(-1), rows = weights.ndim() == 2 ? weights.size(0) : 1;
  check(n >= 1 && (replacement || n <= classes),
        "multinomial: number of draws is out of range; got {} of {} classes {} replacement", n,
        classes, replacement ? "with" : "without");
  const std::vector<double> numbers = weights.to_vector<double>();
  const int64_t each = replacement ? n : classes;
  const std::vector<double> draws = fine_uniform(rows * each, generator);
  std::vector<int64_t> picks(static_cast<size_t>(rows * n));
  for (int64_t row = 0; row < rows; ++row) {
    const std::span<const double> of_row(numbers.data() + row * classes,
                                         static_cast<size_t>(classes));
    const std::span<const double> own(draws.data() + row * each, static_cast<size_t>(each));
    const double total = total_of(of_row, row, n, replacement);
    int64_t* to = picks.data() + row * n;
    if (replacement)
      draw_with_replacement(of_row, total, own, to);
    else
      draw_without_replacement(of_row, own, n, to);
  }
  const Shape shape = weights.ndim() == 2 ? Shape{rows, n} : Shape{n};
  return untracked::to(from_vector(picks, shape), weights.device());
}

// Shuffles by Fisher and Yates, from the end.
Tensor random_permutation(int64_t n, Generator& generator) {
  Tensor order = arange(n);
  const std::vector<double> draws = fine_uniform(n, generator);
  int64_t* p = order.data<int64_t>();
  for (int64_t i = n - 1; i > 0; --i)
    std::swap(p[i],
              p[static_cast<int64_t>(draws[static_cast<size_t>(i)] * static_cast<double>(i + 1))]);
  return order;
}

}  // namespace booster
