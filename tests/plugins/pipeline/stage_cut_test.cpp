// Cuts of a model into stages, against an exhaustive search.
#include "platform/error.h"
#include "plugins/pipeline/stage_cut.h"
#include "tests/draws.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <random>

using namespace booster;

namespace {

// {largest piece, sum of squares}
std::pair<double, double> worth(const std::vector<double>& costs, const StageCut& cut) {
  double largest = 0, squares = 0;
  for (size_t k = 0; k + 1 < cut.size(); ++k) {
    double sum = 0;
    for (int i = cut[k]; i < cut[k + 1]; ++i) sum += costs[static_cast<size_t>(i)];
    largest = std::max(largest, sum);
    squares += sum * sum;
  }
  return {largest, squares};
}

std::pair<double, double> best_of_all(const std::vector<double>& costs, int pieces) {
  const int links = static_cast<int>(costs.size());
  std::pair<double, double> best = {1e300, 0};
  const std::function<void(StageCut)> extend = [&](const StageCut& begins) {
    if (static_cast<int>(begins.size()) == pieces) {
      StageCut cut = begins;
      cut.push_back(links);
      best = std::min(best, worth(costs, cut));
      return;
    }
    for (int i = begins.back() + 1; i < links; ++i) {
      StageCut more = begins;
      more.push_back(i);
      extend(more);
    }
  };
  extend({0});
  return best;
}

}  // namespace

TEST_CASE("a cut by cost is the best of all cuts") {
  for (const unsigned round : testing::draws(500)) {
    std::mt19937 random(round);
    const int links = 1 + static_cast<int>(random() % 9);
    const int pieces = 1 + static_cast<int>(random() % static_cast<unsigned>(links));
    std::vector<double> costs;  // whole numbers: sums are exact
    for (int i = 0; i < links; ++i) costs.push_back(static_cast<double>(random() % 7));
    const StageCut cut = cut_by_cost(costs, pieces);
    REQUIRE(static_cast<int>(cut.size()) == pieces + 1);
    CHECK((cut.front() == 0 && cut.back() == links));
    for (int k = 0; k < pieces; ++k)
      CHECK(cut[static_cast<size_t>(k)] < cut[static_cast<size_t>(k + 1)]);
    CHECK(worth(costs, cut) == best_of_all(costs, pieces));
  }
}

TEST_CASE("cuts by hand are taken as they are, and errors say what fits") {
  CHECK(cut_by_sizes({2, 1, 3}, 6, 3) == StageCut{0, 2, 3, 6});
  const std::vector<std::string> links = {"stem", "block.0", "block.1", "head"};
  CHECK(cut_by_names({"stem", "block.1"}, links, 2) == StageCut{0, 2, 4});
  CHECK(cut_by_names({"block.1", "head"}, links, 3) == StageCut{0, 2, 3, 4});
  CHECK(cut_by_names({}, links, 1) == StageCut{0, 4});
  const auto sizes = [](const std::vector<int>& given, const char* text) {
    CHECK_THROWS_WITH_AS(cut_by_sizes(given, 6, 3), doctest::Contains(text), Error);
  };
  sizes({2, 4}, "got [2, 4], want 3 positive numbers that add up to 6");
  sizes({2, 2, 1}, "add up to 6");
  sizes({7, -2, 1}, "positive");
  const auto names = [&](const std::vector<std::string>& given, const char* text) {
    CHECK_THROWS_WITH_AS(cut_by_names(given, links, 2), doctest::Contains(text), Error);
  };
  names({"blok.1"}, "block.1");
  names({"block.1", "block.0"}, "out of order; got block.0 after block.1");
  names({"block.1", "stem"}, "out of order");
  names({"block.0", "block.1"}, "first links; got 3 ([block.0, block.1]), want 2");
}

TEST_CASE("more stages than links, and costs that are none, are errors") {
  CHECK_THROWS_WITH_AS(cut_by_cost({1, 2}, 3), doctest::Contains("has 2 links"), Error);
  CHECK_THROWS_WITH_AS(cut_by_sizes({1, 1}, 1, 2), doctest::Contains("want at most 1"), Error);
  CHECK_THROWS_WITH_AS(cut_by_cost({1, -1}, 1), doctest::Contains("got -1"), Error);
  CHECK_THROWS_WITH_AS(cut_by_cost({1, 0.0 / 0.0}, 1), doctest::Contains("nan"), Error);
  CHECK(cut_by_cost({1e300, 1e300}, 2) == StageCut{0, 1, 2});
}
