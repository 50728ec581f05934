// Cuts of random batches into micro-batches.
#include "platform/error.h"
#include "plugins/pipeline/microbatches.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace booster;

TEST_CASE("microbatches are even, none is empty, and all rows are in one") {
  std::mt19937 random(6);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 2000; ++round) {
    const int64_t rows = 1 + below(40);
    MicrobatchRule rule{.multiple_of = 1 + below(4)};
    if (below(2)) rule.count = rule.multiple_of * (1 + below(6));
    else rule.size = 1 + below(9);
    const std::vector<int64_t> begins = cut_batch(rows, rule);
    const auto count = static_cast<int64_t>(begins.size()) - 1;
    CHECK((begins.front() == 0 && begins.back() == rows));
    int64_t least = rows, most = 0;
    for (size_t i = 0; i + 1 < begins.size(); ++i) {
      least = std::min(least, begins[i + 1] - begins[i]);
      most = std::max(most, begins[i + 1] - begins[i]);
    }
    INFO(rows, " rows, count ", rule.count, ", size ", rule.size, ", multiple of ",
         rule.multiple_of, ": ", count);
    CHECK((least >= 1 && most <= least + 1));
    if (rows >= rule.multiple_of) CHECK(count % rule.multiple_of == 0);
    else CHECK(count == rows);
    if (rule.count > 0 && rows >= rule.count) CHECK(count == rule.count);
    if (rule.count > 0) CHECK(count <= rule.count);
    if (rule.size > 0 && rule.multiple_of == 1) CHECK(most <= rule.size);
  }
  CHECK_THROWS_WITH_AS(cut_batch(0, {.count = 2}), doctest::Contains("no rows"), Error);
}
