// Products of few rows, and attention of few queries, against plain loops on every CPU variant.
#include "tests/draws.h"
#include "tests/kernels/everywhere.h"

#include <algorithm>
#include <limits>

using namespace booster;
using namespace booster::kernels::test;
using kernels::Table;

namespace {

const DType read_dtypes[] = {DType::f32, DType::f16, DType::bf16};

int64_t drawn(std::mt19937& random, int64_t least, int64_t most) {
  return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
}

// Values in [-1, 1) with rows `gap` elements further apart than they are long.
Plain with_gap(DType dtype, std::vector<int64_t> shape, int64_t gap, unsigned seed) {
  std::vector<int64_t> wide = shape;
  wide.back() += gap;
  return kernels::test::random(dtype, shape, contiguous_strides(wide), seed);
}

struct Cached {
  int64_t batch, heads, each, queries, keys, size, window;
  std::vector<int64_t> first;

  // Whether query i of a text sees the key.
  bool sees(int64_t text, int64_t query, int64_t key) const {
    const int64_t position = keys - queries + query;
    const int64_t begin = first.empty() ? 0 : first[static_cast<size_t>(text)];
    return key >= begin && key <= position && (window == 0 || position - key < window);
  }
};

Numbers attended(const Cached& c, const Plain& q, const Plain& k, const Plain& v, double scale) {
  Numbers out;
  for_each_index(q.shape, [&](const Index& i) {
    double total = 0, sum = 0, best = -std::numeric_limits<double>::infinity();
    Numbers scores(static_cast<size_t>(c.keys));
    for (int64_t key = 0; key < c.keys; ++key) {
      double& score = scores[static_cast<size_t>(key)];
      for (int64_t j = 0; j < c.size; ++j)
        score += q.at({i[0], i[1], i[2], j}) * k.at({i[0], i[1] / c.each, key, j});
      if (c.sees(i[0], i[2], key)) best = std::max(best, score * scale);
    }
    for (int64_t key = 0; key < c.keys; ++key) {
      if (!c.sees(i[0], i[2], key)) continue;
      const double weight = std::exp(scores[static_cast<size_t>(key)] * scale - best);
      total += weight;
      sum += weight * v.at({i[0], i[1] / c.each, key, i[3]});
    }
    out.push_back(total == 0 ? 0 : sum / total);
  });
  return out;
}

}  // namespace

TEST_CASE("few rows times a matrix equal the double loop") {
  for (const unsigned seed : testing::draws(220)) {
    std::mt19937 random(seed);
    const DType dtype = read_dtypes[seed % 3];
    const bool is_long = seed % 11 == 0;  // summed in parts
    const int64_t rows = drawn(random, 1, 8), n = drawn(random, 1, is_long ? 30000 : 300);
    const int64_t columns = is_long         ? drawn(random, 1, 12)
                            : seed % 5 == 0 ? drawn(random, 500, 1200)
                                            : drawn(random, 1, 70);
    CAPTURE(seed);
    const Plain w = with_gap(dtype, {columns, n}, drawn(random, 0, 3), seed + 1);
    // x and y by rows or by columns
    const bool x_turned = random() % 3 == 0, y_turned = random() % 3 == 0;
    const Plain x = kernels::test::random(
        dtype, {rows, n}, x_turned ? Index{1, rows + 1} : Index{n + 2, 1}, seed + 2);
    const DType y_dtype = random() % 3 ? dtype : DType::f32;
    Plain y(y_dtype, {rows, columns}, y_turned ? Index{1, rows} : Index{columns + 1, 1});
    const Plain bias =
        kernels::test::random(random() % 2 ? dtype : DType::f32, {columns}, {1}, seed + 3);
    const bool with_bias = random() % 2;
    Numbers want;
    double magnitude = 1;
    for_each_index({rows, columns}, [&](const Index& i) {
      double sum = with_bias ? bias.at({i[1]}) : 0, terms = std::abs(sum);
      for (int64_t j = 0; j < n; ++j) {
        sum += x.at({i[0], j}) * w.at({i[1], j});
        terms += std::abs(x.at({i[0], j}) * w.at({i[1], j}));
      }
      magnitude = std::max(magnitude, terms);
      want.push_back(sum);
    });
    y.fill_bytes(0);
    const auto run = [&](const Table& on) {
      on.few_rows(y.view(), x.view(), w.view(), with_bias ? bias.view() : kernels::View{});
    };
    check_everywhere(run, {{y, want, magnitude}});
  }
}

TEST_CASE("a row of few gets the bits that it gets alone") {
  for (const DType dtype : read_dtypes)
    for (const int64_t n : {64, 100, 768}) {
      const Plain w = kernels::test::random(dtype, {130, n}, {n, 1}, 1);
      const Plain x = kernels::test::random(dtype, {8, n}, {n, 1}, 2);
      const Plain y = zeros(dtype, {8, 130}), one = zeros(dtype, {1, 130});
      kernels::on({}).few_rows(y.view(), x.view(), w.view(), {});
      for (int64_t row = 0; row < 8; ++row) {
        kernels::View own = x.view();
        own.data = x.address({row, 0});
        own.shape[0] = 1;
        kernels::on({}).few_rows(one.view(), own, w.view(), {});
        CHECK(std::memcmp(one.bytes->data(), y.address({row, 0}), one.bytes->size()) == 0);
      }
    }
}

TEST_CASE("a long sum has the same bits however many are computed at once") {
  for (const DType dtype : read_dtypes)
    for (const int64_t n : {8192, 8193, 20000}) {
      const Plain w = kernels::test::random(dtype, {20, n}, {n, 1}, 1);
      const Plain x = kernels::test::random(dtype, {3, n}, {n, 1}, 2);
      const Plain y = zeros(DType::f32, {3, 20}), one = zeros(DType::f32, {1, 1});
      kernels::on({}).few_rows(y.view(), x.view(), w.view(), {});
      for_each_index({3, 20}, [&](const Index& i) {
        kernels::View row = x.view(), column = w.view();
        row.data = x.address({i[0], 0});
        column.data = w.address({i[1], 0});
        row.shape[0] = column.shape[0] = 1;
        kernels::on({}).few_rows(one.view(), row, column, {});
        CHECK(one.at({0, 0}) == y.at(i));
      });
    }
}

TEST_CASE("attention of few queries equals the double loop") {
  for (const unsigned seed : testing::draws(220)) {
    std::mt19937 random(seed);
    const DType dtype = read_dtypes[seed % 3];
    Cached c{drawn(random, 1, 3),
             drawn(random, 1, 3),
             drawn(random, 1, 4),
             drawn(random, 1, 4),
             0,
             drawn(random, 1, 140),
             random() % 2 ? drawn(random, 1, 20) : 0,
             {}};
    c.keys = c.queries + drawn(random, 0, 70);
    if (random() % 2)
      for (int64_t i = 0; i < c.batch; ++i) c.first.push_back(drawn(random, 0, c.keys - 1));
    CAPTURE(seed);
    const int64_t heads = c.heads * c.each, capacity = c.keys + 5;
    const Plain q = with_gap(dtype, {c.batch, heads, c.queries, c.size}, 1, seed);
    const Index cache = {c.heads * capacity * c.size, capacity * c.size, c.size, 1};
    const Plain k =
        kernels::test::random(dtype, {c.batch, c.heads, c.keys, c.size}, cache, seed + 1);
    const Plain v =
        kernels::test::random(dtype, {c.batch, c.heads, c.keys, c.size}, cache, seed + 2);
    const Plain out = zeros(dtype, {c.batch, heads, c.queries, c.size});
    Plain first = zeros(DType::i64, {c.batch});
    for (int64_t i = 0; i < c.batch && !c.first.empty(); ++i)
      first.set({i}, static_cast<double>(c.first[static_cast<size_t>(i)]));
    const double scale = 0.3;
    const auto run = [&](const Table& on) {
      on.attention_few_queries(out.view(), q.view(), k.view(), v.view(),
                               c.first.empty() ? kernels::View{} : first.view(), scale, c.window);
    };
    check_everywhere(run, {{out, attended(c, q, k, v, scale), 4}});
  }
}
