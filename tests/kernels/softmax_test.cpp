// Softmax and log-softmax against plain loops.
#include "tests/kernels/everywhere.h"

using namespace booster;
using namespace booster::kernels::test;
using kernels::Table;

namespace {

const std::vector<int64_t> shapes[] = {{0, 5},    {1, 1},     {4, 3},   {5, 17},
                                       {33, 197}, {2, 3, 64}, {9, 1000}};

Numbers softmax_of(const Numbers& x, int64_t columns, bool logarithm) {
  Numbers y(x.size());
  for (size_t row = 0; row < x.size(); row += columns) {
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < columns; ++i) largest = std::max(largest, x[row + i]);
    for (int64_t i = 0; i < columns; ++i) sum += std::exp(x[row + i] - largest);
    for (int64_t i = 0; i < columns; ++i) {
      const double shifted = x[row + i] - largest;
      y[row + i] = logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum;
    }
  }
  return y;
}

Numbers softmax_slope(const Numbers& g, const Numbers& y, int64_t columns, bool logarithm) {
  Numbers dx(g.size());
  for (size_t row = 0; row < g.size(); row += columns) {
    double sum = 0;
    for (int64_t i = 0; i < columns; ++i) sum += g[row + i] * (logarithm ? 1 : y[row + i]);
    for (int64_t i = 0; i < columns; ++i) {
      const double value = y[row + i];
      dx[row + i] = logarithm ? g[row + i] - std::exp(value) * sum : value * (g[row + i] - sum);
    }
  }
  return dx;
}

}  // namespace

TEST_CASE("softmax equals a loop in double for every dtype, shape and CPU variant") {
  for (const DType dtype : floating_dtypes)
    for (const auto& shape : shapes)
      for (const bool logarithm : {false, true}) {
        CAPTURE(name_of(dtype));
        const Plain x = random(dtype, shape, 1), y = zeros(dtype, shape);
        check_everywhere(
            [&](const Table& on) { on.softmax(y.view(), x.view(), logarithm); },
            {{y, softmax_of(numbers(x), shape.back(), logarithm), logarithm ? 8. : 0.1}});
      }
}

TEST_CASE("softmax writes another dtype than it reads") {
  const Plain x = random(DType::bf16, {7, 50}, 2), y = zeros(DType::f32, {7, 50});
  check_everywhere([&](const Table& on) { on.softmax(y.view(), x.view(), false); },
                   {{y, softmax_of(numbers(x), 50, false), 0.1}});
}

TEST_CASE("softmax of huge numbers does not overflow, and a row of -inf is nan") {
  const Plain x = from_numbers(
      DType::f32, {3, 3}, {3e38, 3e38, -3e38, -INFINITY, 0, 1, -INFINITY, -INFINITY, -INFINITY});
  const Plain y = zeros(DType::f32, {3, 3});
  const double e = std::exp(1.0);
  check_everywhere([&](const Table& on) { on.softmax(y.view(), x.view(), false); },
                   {{y, {0.5, 0.5, 0, 0, 1 / (1 + e), e / (1 + e), NAN, NAN, NAN}}});
}

TEST_CASE("softmax_backward equals a loop in double") {
  for (const DType dtype : floating_dtypes)
    for (const auto& shape : shapes)
      for (const bool logarithm : {false, true}) {
        CAPTURE(name_of(dtype));
        const Numbers exact = softmax_of(numbers(random(dtype, shape, 3)), shape.back(), logarithm);
        const Plain y = from_numbers(dtype, shape, exact), g = random(dtype, shape, 4);
        const Plain dx = zeros(dtype, shape);
        check_everywhere(
            [&](const Table& on) { on.softmax_backward(dx.view(), g.view(), y.view(), logarithm); },
            {{dx, softmax_slope(numbers(g), numbers(y), shape.back(), logarithm), 1}});
      }
}
