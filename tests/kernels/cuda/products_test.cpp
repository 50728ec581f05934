// Products of matrices, convolutions and attention on a GPU.
#include "tests/kernels/cuda/compare.h"

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

constexpr double terms = 3;  // the size of some hundred of them, added up

Plain matrix(DType dtype, Index shape, bool transposed, uint32_t seed) {
  Index strides = contiguous_strides(shape);
  const size_t last = shape.size() - 1;
  if (transposed) {
    strides[last] = shape[last - 1];
    strides[last - 1] = 1;
  }
  return random(dtype, shape, strides, seed);
}

}  // namespace

TEST_CASE("GPU: matrix products of all dtypes, layouts and odd sizes agree with the CPU" *
          on_gpu()) {
  struct Size {
    int64_t m, n, k;
  };
  const Size sizes[] = {{1, 1, 1}, {3, 5, 7}, {65, 63, 17}, {130, 70, 100}, {4, 64, 0}, {0, 3, 2}};
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64})
    for (const Size& size : sizes)
      for (const int layout : {0, 1, 2, 3}) {
        CAPTURE(std::string(name_of(dtype)));
        CAPTURE(size.m);
        CAPTURE(size.k);
        const Plain a = matrix(dtype, {size.m, size.k}, layout & 1, 1);
        const Plain b = matrix(dtype, {size.k, size.n}, layout & 2, 2);
        for (const double beta : {0.0, 0.5})
          compare(
              beta ? random(dtype, {size.m, size.n}, 3) : unwritten(dtype, {size.m, size.n}),
              {a, b},
              [=](const Table& table, View out, const std::vector<View>& in) {
                table.matmul_loop(out, in[0], in[1], {}, is_floating(out.dtype) ? beta : 0);
              },
              {}, terms);
      }
}

TEST_CASE("GPU: batches of products and linear layers with a bias agree with the CPU" * on_gpu()) {
  for (const DType dtype : floating_dtypes) {
    CAPTURE(std::string(name_of(dtype)));
    Plain one = random(dtype, {3, 40, 30}, 1);
    one.strides[0] = 0;
    compare(
        unwritten(wide(dtype), {3, 33, 30}), {random(dtype, {3, 33, 40}, 2), one},
        [](const Table& table, View out, const std::vector<View>& in) {
          table.matmul(out, in[0], in[1], 0);
        },
        dtype, terms);
    compare(
        unwritten(dtype, {70, 65}),
        {random(dtype, {70, 50}, 1), random(dtype, {65, 50}, 2), random(dtype, {65}, 3)},
        [](const Table& table, View out, const std::vector<View>& in) {
          table.linear(out, in[0], in[1], in[2]);
        },
        {}, terms);
  }
}

TEST_CASE("GPU: convolutions and their gradients agree with the CPU" * on_gpu()) {
  struct Case {
    Index x, weight, y;
    Window2d window;
  };
  const Case cases[] = {
      {{2, 3, 9, 8}, {5, 3, 3, 3}, {2, 5, 9, 8}, {{3, 3}, {1, 1}, {1, 1}}},
      {{1, 4, 11, 7}, {6, 2, 2, 3}, {1, 6, 5, 4}, {{2, 3}, {2, 2}, {0, 2}, {2, 2}, 2}},
      {{2, 3, 16, 16}, {8, 3, 8, 8}, {2, 8, 2, 2}, {{8, 8}, {8, 8}}}};
  for (const Case& one : cases)
    for (const DType dtype : floating_dtypes) {
      CAPTURE(std::string(name_of(dtype)));
      CAPTURE(one.x[1]);
      const Plain x = random(dtype, one.x, 1), weight = random(dtype, one.weight, 2);
      const Plain bias = random(dtype, {one.weight[0]}, 3), g = random(dtype, one.y, 4);
      const Window2d window = one.window;
      compare(
          unwritten(dtype, one.y), {x, weight, bias},
          [=](const Table& table, View out, const std::vector<View>& in) {
            table.conv2d(out, in[0], in[1], in[2], window);
          },
          {}, terms);
      compare(
          unwritten(dtype, one.x), {g, weight},
          [=](const Table& table, View out, const std::vector<View>& in) {
            table.conv2d_backward_input(out, in[0], in[1], window);
          },
          {}, terms);
      compare_all(
          {unwritten(wide(dtype), one.weight), unwritten(wide(dtype), {one.weight[0]})}, {g, x},
          [=](const Table& table, const std::vector<View>& out, const std::vector<View>& in) {
            table.conv2d_backward_weight(out[0], out[1], in[0], in[1], window);
          },
          dtype, terms);
    }
}

TEST_CASE("GPU: attention and its gradients agree with the CPU" * on_gpu()) {
  struct Case {
    int64_t batch, heads, queries, keys, features;
    bool causal, masked;
    double dropout;
  };
  const Case cases[] = {{2, 3, 5, 5, 8, false, false, 0},   {1, 2, 33, 70, 16, false, true, 0.3},
                        {1, 2, 40, 40, 64, true, false, 0}, {1, 1, 1, 1, 1, false, false, 0},
                        {1, 2, 9, 3, 33, true, true, 0.5},  {1, 1, 2, 0, 4, false, false, 0}};
  for (const Case& c : cases)
    for (const DType dtype : floating_dtypes) {
      CAPTURE(std::string(name_of(dtype)));
      CAPTURE(c.queries);
      const Index of_queries = {c.batch, c.heads, c.queries, c.features};
      const Index of_keys = {c.batch, c.heads, c.keys, c.features};
      const Plain q = random(dtype, of_queries, 1), k = random(dtype, of_keys, 2);
      const Plain v = random(dtype, of_keys, 3), g = random(dtype, of_queries, 4);
      Plain mask = random(DType::f32, {c.queries, c.keys}, 5);
      if (c.masked && c.keys > 1)
        for (int64_t j = 0; j < c.keys; ++j) mask.set({1, j}, -INFINITY);  // nothing to see
      const RandomPosition position = {7, 100};
      const double scale = 0.3;
      const Index rows = {c.batch, c.heads, c.queries};
      compare_all(
          {unwritten(dtype, of_queries), unwritten(wide(dtype), rows)}, {q, k, v, mask},
          [=](const Table& table, const std::vector<View>& out, const std::vector<View>& in) {
            table.attention(out[0], out[1], in[0], in[1], in[2], c.masked ? in[3] : View{}, scale,
                            c.causal, c.dropout, position);
          },
          dtype);
      Plain out = test::zeros(dtype, of_queries), log_sum = test::zeros(wide(dtype), rows);
      on({}).attention(out.view(), log_sum.view(), q.view(), k.view(), v.view(),
                       c.masked ? mask.view() : View{}, scale, c.causal, c.dropout, position);
      compare_all(
          {unwritten(dtype, of_queries), unwritten(dtype, of_keys), unwritten(dtype, of_keys)},
          {g, q, k, v, out, log_sum, mask},
          [=](const Table& table, const std::vector<View>& out, const std::vector<View>& in) {
            table.attention_backward(out[0], out[1], out[2], in[0], in[1], in[2], in[3], in[4],
                                     in[5], c.masked ? in[6] : View{}, scale, c.causal, c.dropout,
                                     position);
          },
          {}, 1);
    }
}
