// Softmax and log-softmax of rows and of columns against plain loops.
#include "tests/draws.h"
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

// Returns a tensor (outer, n, inner) as the kernels take it to work along its middle.
kernels::View columns_of(const Plain& x) {
  kernels::View view = x.view();
  view.shape[1] = x.shape[2];
  view.shape[2] = x.shape[1];
  view.strides[1] = 1;
  view.strides[2] = x.shape[2];
  return view;
}

// Returns the numbers of (outer, a, b) in the order (outer, b, a).
Numbers turned(const Numbers& x, const Index& shape) {
  Numbers y;
  for (int64_t o = 0; o < shape[0]; ++o)
    for (int64_t b = 0; b < shape[2]; ++b)
      for (int64_t a = 0; a < shape[1]; ++a) y.push_back(x[(o * shape[1] + a) * shape[2] + b]);
  return y;
}

// Applies `rows` along the middle dimension.
template <class Rows>
Numbers along_middle(const Index& shape, Rows&& rows) {
  return turned(rows(), {shape[0], shape[2], shape[1]});
}

void check_columns(DType from, DType to, const Index& shape, bool logarithm, uint32_t seed) {
  CAPTURE(name_of(from));
  CAPTURE(name_of(to));
  CAPTURE(shape[0]);
  CAPTURE(shape[1]);
  CAPTURE(shape[2]);
  CAPTURE(logarithm);
  const int64_t n = shape[1];
  const Plain x = random(from, shape, seed), y = zeros(to, shape), g = random(to, shape, seed + 1);
  const Numbers exact =
      along_middle(shape, [&] { return softmax_of(turned(numbers(x), shape), n, logarithm); });
  check_everywhere([&](const Table& on) { on.softmax(columns_of(y), columns_of(x), logarithm); },
                   {{y, exact, logarithm ? 8. : 0.1}});
  const Plain result = from_numbers(to, shape, exact), dx = zeros(from, shape);
  const Numbers slope = along_middle(shape, [&] {
    const Numbers upper = turned(numbers(g), shape), of = turned(numbers(result), shape);
    return softmax_slope(upper, of, n, logarithm);
  });
  check_everywhere(
      [&](const Table& on) {
        on.softmax_backward(columns_of(dx), columns_of(g), columns_of(result), logarithm);
      },
      {{dx, slope, std::sqrt(static_cast<double>(n))}});
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

TEST_CASE("softmax and its gradient along columns of drawn shapes equal loops in double") {
  for (const unsigned seed : booster::testing::draws(400)) {
    std::mt19937 random(seed);
    const auto draw = [&](size_t choices) { return static_cast<int64_t>(random() % choices); };
    const int64_t lengths[] = {2, 3, 8, 63, 64, 65, 130, 255, 256, 700};
    const int64_t widths[] = {2, 3, 7, 15, 16, 17, 33, 64, 100, 513, 1030};
    const int64_t n = lengths[draw(10)], inner = widths[draw(n > 130 ? 8 : 11)];
    const DType from = floating_dtypes[draw(4)];
    const DType to = draw(3) || from == DType::f64 ? from : DType::f32;
    check_columns(from, to, {1 + draw(3), n, inner}, draw(2) == 1, seed);
  }
}

TEST_CASE(
    "softmax of columns: huge numbers do not overflow, and a column of -inf or a nan is nan") {
  const double huge = 3e38, none = -INFINITY, e = std::exp(1.0);
  for (const int64_t n : {3, 300})
    for (const bool logarithm : {false, true}) {
      const Index shape = {1, n, 4};
      Numbers values(4 * n, none), want(4 * n, logarithm ? none : 0.);
      const double first[] = {huge, 0, none, 0}, second[] = {huge, 1, none, NAN};
      for (int c = 0; c < 4; ++c) {
        values[c] = first[c];
        values[4 + c] = second[c];
      }
      const double shares[] = {0.5, 1 / (1 + e), 0.5, e / (1 + e)};
      for (int c = 0; c < 2; ++c)
        for (int i = 0; i < 2; ++i) {
          const double share = shares[2 * i + c];
          want[4 * i + c] = logarithm ? std::log(share) : share;
        }
      for (int64_t i = 0; i < n; ++i) want[4 * i + 2] = want[4 * i + 3] = NAN;
      const Plain x = from_numbers(DType::f32, shape, values), y = zeros(DType::f32, shape);
      check_everywhere(
          [&](const Table& on) { on.softmax(columns_of(y), columns_of(x), logarithm); },
          {{y, want}});
    }
}
