// Reductions and argmax against plain loops, on drawn tensors of every layout.
#include "tests/draws.h"
#include "tests/kernels/everywhere.h"

#include <algorithm>
#include <numeric>

using namespace booster;
using namespace booster::kernels::test;
using kernels::ReduceOp;
using kernels::Table;

namespace {

const DType dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                        DType::i32, DType::i64, DType::u8,  DType::boolean};
const ReduceOp ops[] = {ReduceOp::sum,  ReduceOp::mean, ReduceOp::amax,
                        ReduceOp::amin, ReduceOp::any,  ReduceOp::all,
                        ReduceOp::squares};

// Returns numbers that every dtype can hold, equal ones among them.
Plain drawn(DType dtype, const Index& shape, const Index& strides, uint32_t seed) {
  const Plain x(dtype, shape, strides);
  std::mt19937 generator(seed);
  const int most = dtype == DType::boolean ? 2 : 100;
  for_each_index(shape, [&](const Index& at) {
    const auto number = static_cast<int>(generator() % most);
    x.set(at, is_floating(dtype) ? number / 8.0 - 6 : number);
  });
  return x;
}

Index reduced_shape(Index shape, unsigned reduced) {
  for (size_t d = 0; d < shape.size(); ++d)
    if (reduced >> d & 1) shape[d] = 1;
  return shape;
}

// Returns the place to which an element of x is reduced.
Index place_of(Index at, unsigned reduced) {
  for (size_t d = 0; d < at.size(); ++d)
    if (reduced >> d & 1) at[d] = 0;
  return at;
}

// Returns what `op` combines: a sum, an extreme, or whether any or all are not 0.
double combined(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::amax: return std::max(a, b);
    case ReduceOp::amin: return std::min(a, b);
    case ReduceOp::any: return a != 0 || b != 0;
    case ReduceOp::all: return a != 0 && b != 0;
    case ReduceOp::squares: return a + b * b;
    default: return a + b;
  }
}

Numbers reduce(const Plain& x, ReduceOp op, unsigned reduced) {
  const Index shape = reduced_shape(x.shape, reduced);
  const Plain sums = zeros(DType::f64, shape), counts = zeros(DType::f64, shape);
  for_each_index(x.shape, [&](const Index& at) {
    const Index to = place_of(at, reduced);
    const bool is_truth = op == ReduceOp::any || op == ReduceOp::all;
    const double first = is_truth ? x.at(at) != 0
                                  : (op == ReduceOp::squares ? x.at(at) * x.at(at) : x.at(at));
    sums.set(to, counts.at(to) == 0 ? first : combined(op, sums.at(to), x.at(at)));
    counts.set(to, counts.at(to) + 1);
  });
  Numbers want = numbers(sums);
  const Numbers count = numbers(counts);
  for (size_t i = 0; op == ReduceOp::mean && i < want.size(); ++i) want[i] /= count[i];
  return want;
}

DType result_dtype(ReduceOp op, DType dtype) {
  if (op == ReduceOp::any || op == ReduceOp::all) return DType::boolean;
  const bool is_sum = op == ReduceOp::sum || op == ReduceOp::squares;
  if (op == ReduceOp::squares && is_floating(dtype) && dtype != DType::f64) return DType::f32;
  return is_sum && !is_floating(dtype) ? DType::i64 : dtype;
}

void check_reductions(const Plain& x, unsigned reduced) {
  const Index shape = reduced_shape(x.shape, reduced);
  for (const ReduceOp op : ops) {
    if (op == ReduceOp::mean && !is_floating(x.dtype)) continue;
    CAPTURE(static_cast<int>(op));
    const Plain out = zeros(result_dtype(op, x.dtype), shape);
    check_everywhere([&](const Table& on) { on.reduce(op, out.view(), x.view()); },
                     {{out, reduce(x, op, reduced), 0.01}});
  }
}

void check_argmax(const Plain& x, int dim, bool smallest) {
  const unsigned reduced = 1u << dim;
  const Index shape = reduced_shape(x.shape, reduced);
  const Plain places = zeros(DType::i64, shape), index = zeros(DType::i64, shape);
  for_each_index(x.shape, [&](const Index& at) {
    const Index to = place_of(at, reduced);
    Index best = to;
    best[dim] = static_cast<int64_t>(places.at(to));
    const double a = x.at(at), b = x.at(best);
    if ((smallest ? a < b : a > b) || (std::isnan(a) && !std::isnan(b)))
      places.set(to, static_cast<double>(at[dim]));
  });
  check_everywhere([&](const Table& on) { on.argmax(index.view(), x.view(), dim, smallest); },
                   {{index, numbers(places)}});
}

void check_all(const Plain& x, unsigned reduced) {
  CAPTURE(name_of(x.dtype));
  CAPTURE(x.shape.size());
  CAPTURE(x.shape[0]);
  CAPTURE(reduced);
  check_reductions(x, reduced);
  for (size_t d = 0; d < x.shape.size(); ++d)
    if (reduced == 1u << d)
      for (const bool smallest : {false, true}) check_argmax(x, static_cast<int>(d), smallest);
}

// Strides of a tensor whose dimensions lie in memory in a drawn order, some of them with gaps or
// broadcast.
template <class Draw>
Index drawn_strides(const Index& shape, Draw&& draw) {
  Index order(shape.size()), strides(shape.size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw(i)]);
  int64_t stride = draw(4) ? 1 : 2;
  for (const int64_t d : order) {
    strides[d] = draw(9) ? stride : 0;
    stride *= shape[d] + (draw(4) ? 0 : 3);
  }
  return strides;
}

}  // namespace

TEST_CASE("reductions over drawn dimensions of drawn layouts equal plain loops in every dtype") {
  std::mt19937 generator(5);
  const auto draw = [&](size_t choices) { return static_cast<int64_t>(generator() % choices); };
  const int64_t sizes[] = {1, 2, 3, 5, 8, 17, 32, 33, 70, 130};
  for (int i = 0; i < 120; ++i) {
    Index shape(1 + draw(4));
    int64_t all = 1;
    for (int64_t& size : shape) all *= size = sizes[draw(all > 1000 ? 4 : 10)];
    const Plain x = drawn(dtypes[draw(8)], shape, drawn_strides(shape, draw), 7 + i);
    check_all(x, static_cast<unsigned>(1 + draw((1 << shape.size()) - 1)));
  }
}

TEST_CASE("reductions that are cut into parts equal plain loops") {
  struct Case {
    Index shape, strides;
    unsigned reduced;
  };
  const Case cases[] = {{{70'001}, {1}, 1},
                        {{40'000, 3}, {3, 1}, 1},
                        {{300, 600}, {600, 1}, 1},
                        {{300, 600}, {1, 300}, 2},
                        {{2, 70'000}, {70'000, 1}, 2},
                        {{70'001}, {2}, 1},
                        {{9'000, 8}, {11, 1}, 1},
                        {{50, 60, 50}, {3000, 50, 1}, 5},
                        {{5'000, 7}, {7, 1}, 2},
                        {{260, 40, 30}, {1200, 1, 40}, 3}};
  for (const auto& [shape, strides, reduced] : cases)
    for (const DType dtype : {DType::f32, DType::bf16, DType::i64})
      check_all(drawn(dtype, shape, strides, 3), reduced);
}

TEST_CASE(
    "reductions of nothing: a sum and an extreme of 0, no mean, and nothing where no result is "
    "wanted") {
  const Plain none(DType::f32, {3, 0}, {0, 1});
  const Plain sums = zeros(DType::f32, {3, 1}), nothing = zeros(DType::f32, {1, 0});
  const auto check = [&](ReduceOp op, double want) {
    check_everywhere([&](const Table& on) { on.reduce(op, sums.view(), none.view()); },
                     {{sums, Numbers(3, want), 0}});
  };
  check(ReduceOp::sum, 0);
  check(ReduceOp::amax, 0);
  check(ReduceOp::mean, NAN);
  check_everywhere([&](const Table& on) { on.reduce(ReduceOp::sum, nothing.view(), none.view()); },
                   {{nothing, {}}});
}

TEST_CASE("a nan is the largest and the smallest along any dimension, and argmax takes the first") {
  for (const DType dtype : floating_dtypes)
    for (const int64_t size : {3, 40, 3000})
      for (const bool transposed : {false, true}) {
        CAPTURE(size);
        const Index shape = {size, 3}, strides = transposed ? Index{1, size} : Index{3, 1};
        const Plain x = drawn(dtype, shape, strides, 1);
        x.set({size / 2, 0}, NAN);
        x.set({size - 1, 0}, NAN);
        for (int64_t i = 0; i < size; ++i) x.set({i, 1}, i % 2 ? INFINITY : -INFINITY);
        for (const bool smallest : {false, true}) {
          check_argmax(x, 0, smallest);
          check_argmax(x, 1, smallest);
          const Plain out = zeros(dtype, {1, 3});
          const double extreme = smallest ? -INFINITY : INFINITY;
          const ReduceOp op = smallest ? ReduceOp::amin : ReduceOp::amax;
          Numbers want = reduce(x, op, 1);
          want[0] = NAN;
          want[1] = extreme;
          check_everywhere([&](const Table& on) { on.reduce(op, out.view(), x.view()); },
                           {{out, want, 0}});
        }
      }
}

TEST_CASE("extremes of drawn long rows equal plain loops, and a nan anywhere is the extreme") {
  for (const unsigned seed : booster::testing::draws(220)) {
    std::mt19937 generator(seed);
    const auto draw = [&](size_t choices) { return static_cast<int64_t>(generator() % choices); };
    const DType dtype = floating_dtypes[draw(4)];
    const Index shape = {1 + draw(3), 500 + draw(draw(8) ? 1000 : 70'000)};
    const Plain x = drawn(dtype, shape, {shape[1] + draw(2), 1}, seed);
    const double special[] = {NAN, INFINITY, -INFINITY, 1000, -1000};
    for (int64_t count = draw(4); count > 0; --count)
      x.set({draw(shape[0]), draw(shape[1])}, special[draw(5)]);
    for (const bool smallest : {false, true}) {
      CAPTURE(seed);
      Numbers want(shape[0], smallest ? INFINITY : -INFINITY);
      for_each_index(shape, [&](const Index& at) {
        double& best = want[at[0]];
        const double now = x.at(at);
        if (std::isnan(now) || (smallest ? now < best : now > best)) best = now;
      });
      const Plain out = zeros(dtype, {shape[0], 1});
      const ReduceOp op = smallest ? ReduceOp::amin : ReduceOp::amax;
      check_everywhere([&](const Table& on) { on.reduce(op, out.view(), x.view()); },
                       {{out, want, 0}});
    }
  }
}
