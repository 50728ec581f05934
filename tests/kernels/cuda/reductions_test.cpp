// Reductions and argmax on a GPU.
#include "tests/capture_part.h"
#include "tests/kernels/cuda/compare.h"

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

const DType all_dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                            DType::i32, DType::i64, DType::u8,  DType::boolean};
const ReduceOp all_ops[] = {ReduceOp::sum,  ReduceOp::mean, ReduceOp::amax,
                            ReduceOp::amin, ReduceOp::any,  ReduceOp::all,
                            ReduceOp::squares};

// Returns random numbers that every dtype can hold.
Plain drawn(DType dtype, const Index& shape, const Index& strides, uint32_t seed) {
  const Plain x = random(dtype, shape, strides, seed);
  if (dtype == DType::boolean || dtype == DType::u8)
    for_each_index(shape, [&](const Index& at) {
      const double positive = std::fmod(std::abs(x.at(at)), 5);
      x.set(at, dtype == DType::boolean ? positive > 2 : positive);
    });
  return x;
}

// x reduced by every op over the dimensions whose bit is set in `reduced`.
void check_reductions(const Plain& x, unsigned reduced) {
  Index shape = x.shape;
  for (size_t d = 0; d < shape.size(); ++d)
    if (reduced >> d & 1) shape[d] = 1;
  int64_t count = 1;
  for (size_t d = 0; d < shape.size(); ++d)
    if (reduced >> d & 1) count *= x.shape[d];
  for (const ReduceOp op : all_ops) {
    CAPTURE(static_cast<int>(op));
    const bool truth = op == ReduceOp::any || op == ReduceOp::all;
    if (op == ReduceOp::mean && count == 0 && !is_floating(x.dtype)) continue;
    compare(unwritten(truth ? DType::boolean : x.dtype, shape), {x},
            [&](const Table& table, View out, const std::vector<View>& in) {
              table.reduce(op, out, in[0]);
            });
  }
}

void check_argmax(const Plain& x, int dim) {
  CAPTURE(dim);
  Index shape = x.shape;
  shape[dim] = 1;
  for (const bool smallest : {false, true})
    compare(unwritten(DType::i64, shape), {x},
            [=](const Table& table, View out, const std::vector<View>& in) {
              table.argmax(out, in[0], dim, smallest);
            });
}

// Dense, transposed and broadcast, with many values, with many outputs, with none.
struct Layout {
  Index shape, strides;
};
const Layout layouts[] = {
    {{}, {}},
    {{1}, {1}},
    {{70'001}, {1}},
    {{3, 1021}, {1021, 1}},
    {{1021, 3}, {3, 1}},
    {{700, 65}, {65, 1}},
    {{37, 29}, {1, 37}},
    {{5, 300}, {0, 1}},
    {{6, 5, 7}, {1, 0, 6}},
    {{4, 3, 5, 6}, {1, 120, 4, 20}},
    {{2, 4, 9, 17}, {1224, 306, 34, 2}},
    {{0, 4}, {4, 1}},
    {{4, 0, 3}, {0, 3, 1}},
};

template <class Body>
void for_each_layout(Body&& body) {
  uint32_t seed = 1;
  for (const auto& [shape, strides] : layouts)
    for (const DType dtype : all_dtypes) {
      CAPTURE(std::string(name_of(dtype)));
      CAPTURE_PART(shape.size());
      CAPTURE_PART(shape.empty() ? 1 : shape[0]);
      body(drawn(dtype, shape, strides, seed++));
    }
}

}  // namespace

TEST_CASE("GPU: every reduction over any dimensions of any layout agrees with the CPU" * on_gpu()) {
  for_each_layout([](const Plain& x) {
    for (unsigned reduced = 0; reduced < 1u << x.shape.size(); ++reduced) {
      CAPTURE(reduced);
      check_reductions(x, reduced);
    }
  });
}

TEST_CASE("GPU: argmax along any dimension of any layout agrees with the CPU" * on_gpu()) {
  for_each_layout([](const Plain& x) {
    for (size_t dim = 0; dim < x.shape.size(); ++dim) check_argmax(x, static_cast<int>(dim));
  });
}

TEST_CASE("GPU: a nan is the largest and the smallest, and the first one is argmax" * on_gpu()) {
  for (const DType dtype : floating_dtypes)
    for (const int64_t size : {3, 5000}) {
      const Plain x = random(dtype, {size, 2}, 1);
      x.set({1, 0}, NAN);
      x.set({size - 1, 0}, NAN);
      for (int64_t i = 0; i < size; ++i) x.set({i, 1}, -INFINITY);
      for (const unsigned reduced : {1u, 2u, 3u}) check_reductions(x, reduced);
      for (const int dim : {0, 1}) check_argmax(x, dim);
    }
}

TEST_CASE("GPU: integers are summed and compared exactly" * on_gpu()) {
  const int64_t large = (int64_t(1) << 60) + 1, most = INT64_MAX;
  const std::vector<int64_t> values = {large, -large - 2, most, 1 - most, most, -most - 1};
  const Plain x = test::zeros(DType::i64, {6});
  std::memcpy(x.bytes->data(), values.data(), 6 * sizeof(int64_t));
  const GpuCopy there(x);
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::amax, ReduceOp::amin}) {
    const Plain want = unwritten(DType::i64, {1});
    const GpuCopy out(want);
    on({}).reduce(op, want.view(), x.view());
    on(gpu).reduce(op, out.view_like(want), there.view_like(x));
    int64_t got = 0, wanted = 0;
    out.fetch(&got, sizeof got);
    std::memcpy(&wanted, want.bytes->data(), sizeof wanted);
    CHECK(got == wanted);
  }
}

TEST_CASE("GPU: sums keep the bits from call to call and take large terms that cancel" * on_gpu()) {
  const Plain x = random(DType::f32, {300'000}, 1);
  x.set({0}, 1e20);
  x.set({299'999}, -1e20);
  x.set({1}, 3);
  const GpuCopy there(x);
  std::vector<Plain> sums;
  for (int call = 0; call < 2; ++call) {
    const Plain out = unwritten(DType::f32, {1});
    const GpuCopy result(out);
    on(gpu).reduce(ReduceOp::sum, result.view_like(out), there.view_like(x));
    sums.push_back(result.fetch(out));
  }
  CHECK(*sums[0].bytes == *sums[1].bytes);
}
