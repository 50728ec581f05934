// Sorting of rows against a stable sort in double, with ties, zeros of both signs, infinities and
// nans.
#include "tests/kernels/everywhere.h"

#include <algorithm>
#include <numeric>

using namespace booster;
using namespace booster::kernels::test;
using kernels::Table;

namespace {

// Returns few distinct values, so that rows have ties.
Plain drawn(DType dtype, const Index& shape) {
  const Plain x = zeros(dtype, shape);
  std::mt19937 generator(5);
  const double special[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e30};
  for_each_index(shape, [&](const Index& i) {
    const auto pick = generator() % 40;
    const double number = static_cast<double>(generator() % 17) - (dtype == DType::u8 ? 0 : 8);
    x.set(i, is_floating(dtype) && pick < 6 ? special[pick] : number);
  });
  if (dtype == DType::i64 && x.bytes->size() > 16) {
    const int64_t ends[] = {INT64_MIN, INT64_MAX};
    std::memcpy(x.bytes->data(), ends, sizeof ends);
  }
  return x;
}

bool comes_before(double a, double b, bool descending) {
  if (std::isnan(a) || std::isnan(b))
    return descending ? std::isnan(a) && !std::isnan(b) : !std::isnan(a) && std::isnan(b);
  return descending ? a > b : a < b;
}

Numbers order_of(const Plain& x, int64_t wanted, bool descending) {
  Numbers all;
  const int64_t columns = x.shape[1];
  for (int64_t row = 0; row < x.shape[0]; ++row) {
    std::vector<int64_t> order(static_cast<size_t>(columns));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return comes_before(x.at({row, a}), x.at({row, b}), descending);
    });
    for (int64_t i = 0; i < wanted; ++i) all.push_back(static_cast<double>(order[i]));
  }
  return all;
}

}  // namespace

TEST_CASE("rows are sorted stably, whole or their first numbers alone") {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8})
    for (const int64_t columns : {1, 2, 15, 16, 17, 40, 300, 1025})
      for (const bool descending : {false, true})
        for (const int64_t some : {int64_t{1}, int64_t{33}, columns / 2, columns}) {
          const int64_t wanted = std::min(some, columns);
          CAPTURE(name_of(dtype));
          CAPTURE(columns);
          CAPTURE(descending);
          CAPTURE(wanted);
          const Plain x = drawn(dtype, {3, columns}), index = zeros(DType::i64, {3, wanted});
          check_everywhere(
              [&](const Table& on) { on.sort_rows(index.view(), x.view(), descending); },
              {{index, order_of(x, wanted, descending), 0}});
        }
}
