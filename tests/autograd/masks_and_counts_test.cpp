// Masks, positions, counts and searches: examples with PyTorch's results, and draws against plain
// loops. Values and gradients of the other functions are in tests/nn (coverage.json).
#include "core/autograd/functions.h"
#include "core/tensor/random/random.h"
#include "tests/draws.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

using namespace booster;
using namespace booster::testing;

namespace {

using Places = std::vector<int64_t>;
using Truths = std::vector<bool>;

Tensor floats(const std::vector<float>& values) {
  return from_vector(values, {static_cast<int64_t>(values.size())});
}
Tensor whole(const Places& values) {
  return from_vector(values, {static_cast<int64_t>(values.size())});
}

}  // namespace

TEST_CASE("logic takes every dtype, and every value but 0 is true") {
  const Tensor a = floats({0, 1, -2, NAN}), b = whole({0, 0, 3, 0});
  CHECK(logical_not(a).to_vector<bool>() == Truths{true, false, false, false});
  CHECK(logical_and(a, b).to_vector<bool>() == Truths{false, false, true, false});
  CHECK(logical_or(a, b).to_vector<bool>() == Truths{false, true, true, true});
  CHECK(logical_xor(a, b).to_vector<bool>() == Truths{false, true, false, true});
  CHECK(logical_and(a, b).dtype() == DType::boolean);
  const Tensor x = from_vector<float>({0, 2, 0, 0, 0, 3}, {3, 2});
  CHECK(any(x, {1}).to_vector<bool>() == Truths{true, false, true});
  CHECK(all(x, {0}).to_vector<bool>() == Truths{false, false});
  CHECK(any(x).item() == 1);
  CHECK(all(x, {0}, true).shape() == Shape{1, 2});
  CHECK(all(zeros({0})).item() == 1);
  CHECK(any(zeros({0})).item() == 0);
  CHECK(count_nonzero(x, {0}).to_vector<int64_t>() == Places{0, 2});
}

TEST_CASE("tests of values are PyTorch's at infinity and nan") {
  const Tensor x = floats({1, INFINITY, -INFINITY, NAN});
  CHECK(isinf(x).to_vector<bool>() == Truths{false, true, true, false});
  CHECK(isclose(x, floats({1.000001F, INFINITY, INFINITY, NAN})).to_vector<bool>() ==
        Truths{true, true, false, false});
  CHECK(allclose(floats({1, 2}), floats({1, 2.00001F})));
  CHECK_FALSE(allclose(floats({1, 2}), floats({1, 2.1F})));
  CHECK_FALSE(allclose(floats({1}), floats({INFINITY})));
  CHECK(isin(whole({1, 2, 3}), whole({3, 1})).to_vector<bool>() == Truths{true, false, true});
  const auto kept = nan_to_num(x, 7, 8).to_vector<float>();
  CHECK(kept == std::vector<float>{1, 8, -3.4028235e38F, 7});
  CHECK(nansum(x.to(DType::f64)[from_vector<int64_t>({0, 3}, {2})]).item() == 1);
  CHECK(nanmean(floats({1, NAN, 4})).item() == 2.5);
  CHECK(std::isnan(median(floats({1, NAN, 4})).item()));
  CHECK(median(floats({4, 1, 3, 2})).item() == 2);
}

TEST_CASE("integers divide as in PyTorch") {
  const Tensor a = whole({7, -7, 7, -7}), b = whole({3, 3, -3, -3});
  CHECK(remainder(a, b).to_vector<int64_t>() == Places{1, 2, -2, -1});
  CHECK(fmod(a, b).to_vector<int64_t>() == Places{1, -1, 1, -1});
  CHECK(floor_divide(a, b).to_vector<int64_t>() == Places{2, -3, -3, 2});
  CHECK(floor_divide(a, b).dtype() == DType::i64);
  CHECK(cumprod(a, 0).to_vector<int64_t>() == Places{7, -49, -343, 2401});
  CHECK(prod(b).item() == 81);
}

TEST_CASE("ranges with a step are PyTorch's") {
  CHECK(arange(2, 9, 3).to_vector<int64_t>() == Places{2, 5, 8});
  CHECK(arange(5, 0, -2).to_vector<int64_t>() == Places{5, 3, 1});
  CHECK(arange(2, 2).numel() == 0);
  CHECK(arange(0.5, 2, 0.5).dtype() == DType::f32);
  CHECK(arange(0.5, 2, 0.5).to_vector<double>() == std::vector<double>{0.5, 1, 1.5});
  CHECK(arange(0, 1, 0.25).numel() == 4);
  CHECK_THROWS_WITH_AS(arange(0, 5, -1),
                       "arange: the step leads away from the end; got 0 to 5 by -1", Error);
  CHECK_THROWS_AS(arange(0, 5, 0), Error);
  CHECK(eye(2, 3).to_vector<double>() == std::vector<double>{1, 0, 0, 0, 1, 0});
  CHECK(full_like(zeros({2}, {.dtype = DType::i32}), 3).dtype() == DType::i32);
  const auto grid = meshgrid({arange(2), arange(3)}, "xy");
  CHECK(grid[0].shape() == Shape{3, 2});
  CHECK(grid[1].to_vector<int64_t>() == Places{0, 0, 1, 1, 2, 2});
}

TEST_CASE("positions, counts and searches equal plain loops") {
  for (const unsigned seed : draws(110)) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto draw = [&](unsigned n) { return static_cast<int64_t>(random() % n); };
    const Shape shape = {1 + draw(4), 1 + draw(5)};
    const Tensor x = randint(0, 4, shape);
    const auto values = x.to_vector<int64_t>();
    Places positions, counted(static_cast<size_t>(5), 0);
    std::map<int64_t, int64_t> occurrences;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      if (values[i] != 0) positions.insert(positions.end(), {at / shape[1], at % shape[1]});
      ++counted[static_cast<size_t>(values[i])];
      ++occurrences[values[i]];
    }
    CHECK(nonzero(x).to_vector<int64_t>() == positions);
    CHECK(nonzero(x).size(1) == 2);
    CHECK(bincount(flatten(x), {}, 5).to_vector<int64_t>() == counted);
    const auto [found, inverse, counts] = unique(x);
    CHECK(found[inverse].to_vector<int64_t>() == values);
    size_t next = 0;
    for (const auto& [value, count] : occurrences) {
      CHECK(found.to_vector<int64_t>()[next] == value);
      CHECK(counts.to_vector<int64_t>()[next++] == count);
    }
    const Tensor rows = sort(x, -1).first, wanted = randint(-1, 5, {shape[0], 3});
    for (const bool right : {false, true}) {
      const auto got = searchsorted(rows, wanted, right).to_vector<int64_t>();
      for (int64_t i = 0; i < wanted.numel(); ++i) {
        const auto row = rows[i / 3].to_vector<int64_t>();
        const int64_t value = wanted.to_vector<int64_t>()[static_cast<size_t>(i)];
        const auto smaller =
            std::ranges::count_if(row, [&](int64_t v) { return right ? v <= value : v < value; });
        CHECK(got[static_cast<size_t>(i)] == smaller);
      }
    }
  }
}

TEST_CASE("shifts and repetitions equal index arithmetic") {
  for (const unsigned seed : draws(110)) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto draw = [&](unsigned n) { return static_cast<int64_t>(random() % n); };
    const int64_t h = 1 + draw(4), w = 1 + draw(5), shift = draw(13) - 6, times = draw(4);
    const Tensor x = normal({h, w});
    const auto from = x.to_vector<float>();
    const auto at = [&](int64_t i, int64_t j) { return from[static_cast<size_t>(i * w + j)]; };
    const Tensor rolled = roll(x, {shift}, {1}), twice = repeat_interleave(x, times, 1);
    for (int64_t i = 0; i < h; ++i) {
      for (int64_t j = 0; j < w; ++j)
        CHECK(rolled[i][j].item() == at(i, ((j - shift) % w + w) % w));
      for (int64_t j = 0; j < w * times; ++j) CHECK(twice[i][j].item() == at(i, j / times));
    }
    const Tensor tiles = repeat(x, {2, times});
    CHECK(tiles.shape() == Shape{2 * h, w * times});
    for (int64_t j = 0; j < w * times; ++j) CHECK(tiles[2 * h - 1][j].item() == at(h - 1, j % w));
  }
}

TEST_CASE("wrong arguments say what was wanted") {
  CHECK_THROWS_WITH_AS(repeat(zeros({2, 3}), {2}),
                       "repeat: too few counts; got 1 for (2, 3), want one for each dimension",
                       Error);
  CHECK_THROWS_WITH_AS(bincount(whole({1, -2})),
                       "bincount: a number is negative; got -2 at position 1", Error);
  CHECK_THROWS_WITH_AS(kthvalue(zeros({3}), 4), "kthvalue: k is out of range; got 4, want 1 to 3",
                       Error);
  CHECK_THROWS_WITH_AS(meshgrid({zeros({2})}, "jk"), doctest::Contains("unknown indexing; got jk"),
                       Error);
  CHECK_THROWS_AS(cross(zeros({2}), zeros({2})), Error);
  CHECK_THROWS_AS(masked_select(zeros({2}), zeros({2})), Error);
  CHECK_THROWS_AS(index_add(zeros({2, 3}), 1, whole({0}), zeros({2, 2})), Error);
  CHECK_THROWS_AS(searchsorted(zeros({2, 3}), zeros({3, 2})), Error);
  CHECK_THROWS_AS(unflatten(zeros({5}), 0, {2, -1}), Error);
}
