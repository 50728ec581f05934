// Random integers and positions: ranges, frequencies and errors.
#include "core/tensor/random/random.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

using namespace booster;

namespace {

// Returns the share of draws for each number from 0 on.
std::vector<double> shares(const std::vector<int64_t>& draws, size_t numbers) {
  std::vector<double> counts(numbers);
  for (const int64_t draw : draws) counts.at(static_cast<size_t>(draw)) += 1.0 / draws.size();
  return counts;
}

// Returns five standard deviations of a share of n draws.
double allowed(double p, size_t n) { return 5 * std::sqrt(p * (1 - p) / static_cast<double>(n)); }

}  // namespace

TEST_CASE("randint draws every number of its range alike, and no other") {
  Generator generator(1);
  const auto draws = randint(-3, 4, {100, 200}, {}, generator).to_vector<int64_t>();
  std::vector<int64_t> from_0;
  for (const int64_t draw : draws) from_0.push_back(draw + 3);
  for (const double share : shares(from_0, 7))
    CHECK(std::abs(share - 1.0 / 7) < allowed(1.0 / 7, draws.size()));
  CHECK(randint(5, 6, {3}).to_vector<int64_t>() == std::vector<int64_t>{5, 5, 5});
  CHECK(randint(0, 2, {2, 0}).shape() == Shape{2, 0});
  CHECK_THROWS_WITH_AS(randint(2, 2, {1}), "randint: empty range; got 2 to below 2", Error);
  CHECK_THROWS_AS(randint(0, int64_t{1} << 50, {1}), Error);
  CHECK_THROWS_AS(randint(INT64_MIN, INT64_MAX, {1}), Error);
}

TEST_CASE("bernoulli draws 1 as often as each probability says, in its dtype") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    Generator generator(2);
    const std::vector<double> p = {0, 0.25, 0.75, 1};
    std::vector<double> each;
    for (int i = 0; i < 40000; ++i) each.push_back(p[static_cast<size_t>(i % 4)]);
    const Tensor x = untracked::cast(from_vector(each, {10000, 4}), dtype);
    const Tensor y = bernoulli(x, generator);
    CHECK(y.dtype() == dtype);
    CHECK(y.shape() == x.shape());
    std::vector<double> counts(4);
    const auto numbers = y.to_vector<double>();
    for (size_t i = 0; i < numbers.size(); ++i) {
      CHECK_MESSAGE((numbers[i] == 0 || numbers[i] == 1), "got " << numbers[i]);
      counts[i % 4] += numbers[i] / 10000;
    }
    for (size_t i = 0; i < p.size(); ++i)
      CHECK(std::abs(counts[i] - p[i]) <= allowed(p[i], 10000) + 1e-9);
  }
  CHECK_THROWS_WITH_AS(bernoulli(from_vector(std::vector<float>{0.5F, 1.5F}, {2})),
                       "bernoulli: not a probability; got 1.5 at position 1, want 0 to 1", Error);
  CHECK_THROWS_AS(bernoulli(from_vector(std::vector<float>{-0.1F}, {1})), Error);
  CHECK_THROWS_WITH_AS(bernoulli(from_vector(std::vector<float>{NAN, 0.5F}, {2})),
                       doctest::Contains("got nan at position 0"), Error);
  CHECK_THROWS_AS(bernoulli(zeros({2}, {.dtype = DType::i64})), Error);
}

TEST_CASE("multinomial with replacement draws as often as the weights say") {
  Generator generator(3);
  const Tensor weights = from_vector(std::vector<float>{0, 1, 0, 3, 4, 0}, {6});
  const auto draws = multinomial(weights, 20000, true, generator).to_vector<int64_t>();
  const auto got = shares(draws, 6);
  const double want[] = {0, 0.125, 0, 0.375, 0.5, 0};
  for (size_t i = 0; i < got.size(); ++i)
    CHECK(std::abs(got[i] - want[i]) <= allowed(want[i], draws.size()));
}

TEST_CASE("multinomial without replacement draws each once, the heavier ones earlier") {
  Generator generator(4);
  const std::vector<double> weights = {1, 2, 0, 5};
  std::vector<int64_t> first;
  double second_of_3 = 0;  // share of 1 after 3
  size_t behind_3 = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto draw =
        multinomial(from_vector(weights, {4}), 3, false, generator).to_vector<int64_t>();
    CHECK(std::set<int64_t>(draw.begin(), draw.end()) == std::set<int64_t>{0, 1, 3});
    first.push_back(draw[0]);
    if (draw[0] != 3) continue;
    ++behind_3;
    second_of_3 += draw[1] == 1;
  }
  const auto got = shares(first, 4);
  for (size_t i = 0; i < weights.size(); ++i)
    CHECK(std::abs(got[i] - weights[i] / 8) <= allowed(weights[i] / 8, first.size()));
  CHECK(std::abs(second_of_3 / behind_3 - 2.0 / 3) < allowed(2.0 / 3, behind_3));
}

TEST_CASE("multinomial draws for each row, and the same again from the same state") {
  const Tensor weights = from_vector(std::vector<float>{1, 0, 0, 0, 0, 2}, {2, 3});
  CHECK(multinomial(weights, 2, true).to_vector<int64_t>() == std::vector<int64_t>{0, 0, 2, 2});
  Generator a(5), b(5);
  const Tensor many = uniform({3, 50});
  CHECK(multinomial(many, 20, false, a).to_vector<int64_t>() ==
        multinomial(many, 20, false, b).to_vector<int64_t>());
  CHECK(multinomial(many, 1).shape() == Shape{3, 1});
}

TEST_CASE("GPU: draws are those of the CPU" * on_gpu()) {
  const Tensor weights = uniform({4, 9});
  Generator a(6), b(6);
  CHECK(multinomial(weights, 5, true, a).to_vector<int64_t>() ==
        multinomial(weights.to(gpu), 5, true, b).to_vector<int64_t>());
  CHECK(bernoulli(weights, a).to_vector<float>() ==
        bernoulli(weights.to(gpu), b).to_vector<float>());
  CHECK(randint(0, 9, {7}, {}, a).to_vector<int64_t>() ==
        randint(0, 9, {7}, gpu, b).to_vector<int64_t>());
}

TEST_CASE("multinomial says what is wrong with its weights") {
  const auto refused = [](const std::vector<float>& weights, int64_t n, bool replacement) {
    const Tensor x = from_vector(weights, {static_cast<int64_t>(weights.size())});
    CHECK_THROWS_AS(multinomial(x, n, replacement), Error);
  };
  refused({1, -1}, 1, true);
  refused({1, NAN}, 1, true);
  refused({1, INFINITY}, 1, true);
  refused({0, 0}, 1, true);
  refused({1, 0, 1}, 3, false);
  refused({1, 1}, 3, false);
  refused({1, 1}, 0, true);
  CHECK_THROWS_WITH_AS(multinomial(from_vector(std::vector<float>{1, 1, 2, -3}, {2, 2}), 1),
                       "multinomial: a weight is negative or not finite; got -3 for class 1 in row "
                       "1",
                       Error);
  CHECK_THROWS_AS(multinomial(zeros({2, 2, 2}), 1), Error);
  CHECK_THROWS_AS(multinomial(zeros({2}, {.dtype = DType::i64}), 1), Error);
}

TEST_CASE("linspace has both ends and equal distances") {
  CHECK(linspace(0, 1, 5).to_vector<float>() == std::vector<float>{0, 0.25F, 0.5F, 0.75F, 1});
  CHECK(linspace(3, 3, 2).to_vector<float>() == std::vector<float>{3, 3});
  CHECK(linspace(2, 9, 1).to_vector<float>() == std::vector<float>{2});
  CHECK(linspace(2, 9, 0).numel() == 0);
  CHECK(linspace(-1, 0.1, 7, {.dtype = DType::f64}).to_vector<double>().back() == 0.1);
  CHECK(linspace(0, 10, 4, {.dtype = DType::i64}).to_vector<int64_t>() ==
        std::vector<int64_t>{0, 3, 6, 10});
  CHECK_THROWS_AS(linspace(0, 1, -1), Error);
}
