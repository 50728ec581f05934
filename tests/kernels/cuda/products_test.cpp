// Matrix products and attention on a GPU.
#include "tests/draws.h"
#include "tests/kernels/cuda/compare.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

constexpr double terms = 3;  // the size of a sum of some hundred terms

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

namespace {

// A matrix, or a batch of them, at an offset in a memory block.
struct Placed {
  int64_t offset;
  Index shape, strides;
  int64_t room() const {
    int64_t last = offset + 8;
    for (size_t i = 0; i < shape.size(); ++i) last += (shape[i] - 1) * strides[i];
    return last + 1;
  }
  View in(View memory) const {
    memory.data = memory.as<char>() + offset * size_of(memory.dtype);
    memory.ndim = static_cast<int>(shape.size());
    std::copy(shape.begin(), shape.end(), memory.shape);
    std::copy(strides.begin(), strides.end(), memory.strides);
    return memory;
  }
};

// Draws a placement with gaps between rows, columns and matrices, by rows or by columns, at any
// address.
Placed placed(std::mt19937& random, bool batched, Index shape, bool may_repeat) {
  const auto draw = [&](int64_t below) { return static_cast<int64_t>(random() % below); };
  Placed drawn{draw(4), shape, {1, 1}};
  const bool by_columns = draw(2);
  const int64_t leading = shape[by_columns ? 0 : 1] + draw(2) * draw(5);
  drawn.strides[by_columns ? 1 : 0] = leading;
  if (batched) {
    const int64_t whole = leading * shape[by_columns ? 1 : 0] + draw(3);
    drawn.shape.insert(drawn.shape.begin(), 3);
    drawn.strides.insert(drawn.strides.begin(), may_repeat && draw(3) == 0 ? 0 : whole);
  }
  return drawn;
}

}  // namespace

TEST_CASE("GPU: drawn products agree with the CPU, and write nothing else" * on_gpu()) {
  for (const unsigned i : booster::testing::draws(300)) {
    std::mt19937 drawn(i);
    const auto draw = [&](int64_t below) { return static_cast<int64_t>(drawn() % below); };
    const DType dtype = floating_dtypes[draw(std::size(floating_dtypes))];
    const DType out_dtype = is_16_bit(dtype) && draw(3) == 0 ? DType::f32 : dtype;
    const int64_t m = 1 + draw(40), n = 1 + draw(40), k = 1 + draw(40);
    const bool batched = draw(2);
    const double beta = draw(2) ? 0 : 0.5;
    const Placed out = placed(drawn, batched, {m, n}, false);
    const Placed a = placed(drawn, batched, {m, k}, true), b = placed(drawn, batched, {k, n}, true);
    CAPTURE(i);
    CAPTURE(m);
    CAPTURE(n);
    CAPTURE(k);
    CAPTURE(batched);
    compare(
        random(out_dtype, {out.room()}, 3),
        {random(dtype, {a.room()}, 1), random(dtype, {b.room()}, 2)},
        [=](const Table& table, View memory, const std::vector<View>& in) {
          table.matmul(out.in(memory), a.in(in[0]), b.in(in[1]), beta);
        },
        dtype, terms);
  }
}

TEST_CASE("GPU: drawn linear layers agree with the CPU" * on_gpu()) {
  for (const unsigned i : booster::testing::draws(100)) {
    std::mt19937 drawn(i);
    const auto draw = [&](int64_t below) { return static_cast<int64_t>(drawn() % below); };
    const DType dtype = floating_dtypes[draw(std::size(floating_dtypes))];
    const int64_t rows = 1 + draw(40), outputs = 1 + draw(40), inputs = 1 + draw(40);
    const int64_t offset = draw(3);
    const DType bias_dtype = draw(4) ? dtype : wide(dtype);
    const Placed x = placed(drawn, false, {rows, inputs}, false);
    CAPTURE(i);
    compare(
        unwritten(dtype, {rows, outputs}),
        {random(dtype, {x.room()}, 1), random(dtype, {outputs, inputs}, 2),
         random(bias_dtype, {outputs + offset}, 3)},
        [=](const Table& table, View y, const std::vector<View>& in) {
          const Placed bias = {offset, {outputs}, {1}};
          table.linear(y, x.in(in[0]), in[1], bias.in(in[2]));
        },
        {}, terms);
  }
}

TEST_CASE("GPU: drawn gradients of weights and biases agree with the CPU" * on_gpu()) {
  for (const unsigned i : booster::testing::draws(100)) {
    std::mt19937 drawn(i);
    const auto draw = [&](int64_t below) { return static_cast<int64_t>(drawn() % below); };
    const DType dtype = floating_dtypes[draw(std::size(floating_dtypes))];
    const DType out = is_16_bit(dtype) && draw(2) ? DType::f32 : dtype;
    const DType sums = draw(4) ? out : wide(dtype);
    const int64_t rows = draw(40), outputs = 1 + draw(40), inputs = 1 + draw(40);
    const double beta = draw(2);
    const bool has_bias = draw(4);
    const Placed x = placed(drawn, false, {rows, inputs}, false);
    const Placed dweight = placed(drawn, false, {outputs, inputs}, false);
    const Placed dbias = {draw(3), {outputs}, {1}};
    CAPTURE(i);
    compare_all(
        {random(out, {dweight.room()}, 3), random(sums, {dbias.room()}, 4)},
        {random(dtype, {rows, outputs}, 1), random(dtype, {x.room()}, 2)},
        [=](const Table& table, const std::vector<View>& to, const std::vector<View>& in) {
          table.linear_backward_weight(dweight.in(to[0]), has_bias ? dbias.in(to[1]) : View{},
                                       in[0], x.in(in[1]), beta);
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
        for (int64_t j = 0; j < c.keys; ++j) mask.set({1, j}, -INFINITY);  // sees no key
      const RandomPosition position = {7, 100};
      const double scale = 0.3;
      const Index rows = {c.batch, c.heads, c.queries, 2};
      compare_all(
          {unwritten(dtype, of_queries), unwritten(wide(dtype), rows)}, {q, k, v, mask},
          [=](const Table& table, const std::vector<View>& out, const std::vector<View>& in) {
            table.attention(out[0], out[1], in[0], in[1], in[2], c.masked ? in[3] : View{}, scale,
                            c.causal, c.dropout, position);
          },
          dtype, 1);
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

TEST_CASE("GPU: attention's gradients take results of more keys than the call has" * on_gpu()) {
  const Index of_queries = {2, 3, 11, 16}, of_keys = {2, 3, 70, 16}, rows = {2, 3, 11, 2};
  for (const DType dtype : floating_dtypes)
    for (const double dropout : {0.0, 0.3}) {
      CAPTURE(std::string(name_of(dtype)));
      CAPTURE(dropout);
      const Plain q = random(dtype, of_queries, 1), k = random(dtype, of_keys, 2);
      const Plain v = random(dtype, of_keys, 3), g = random(dtype, of_queries, 4);
      const Plain out = random(dtype, of_queries, 5);
      Plain log_sum = test::zeros(wide(dtype), rows);
      for_each_index(rows, [&](const Index& i) { log_sum.set(i, i[3] == 0 ? 2 : 7); });
      compare_all(
          {unwritten(dtype, of_queries), unwritten(dtype, of_keys), unwritten(dtype, of_keys)},
          {g, q, k, v, out, log_sum},
          [=](const Table& table, const std::vector<View>& to, const std::vector<View>& in) {
            table.attention_backward(to[0], to[1], to[2], in[0], in[1], in[2], in[3], in[4], in[5],
                                     {}, 0.3, false, dropout, {7, 100});
          },
          {}, 1);
    }
}

TEST_CASE("GPU: a mask of the smallest number hides all keys of a query alike" * on_gpu()) {
  const Index tokens = {1, 2, 9, 16}, rows = {1, 2, 9, 2};
  for (const DType dtype : floating_dtypes) {
    CAPTURE(std::string(name_of(dtype)));
    const Plain q = random(dtype, tokens, 1), k = random(dtype, tokens, 2);
    const Plain v = random(dtype, tokens, 3), g = random(dtype, tokens, 4);
    const Plain mask =
        from_numbers(DType::f32, {9, 9}, Numbers(81, std::numeric_limits<float>::lowest()));
    compare_all(
        {unwritten(dtype, tokens), unwritten(wide(dtype), rows)}, {q, k, v, mask},
        [=](const Table& table, const std::vector<View>& out, const std::vector<View>& in) {
          table.attention(out[0], out[1], in[0], in[1], in[2], in[3], 0.3, false, 0, {});
        },
        dtype, 1);
    if (is_16_bit(dtype)) continue;  // in tiles the gradients assume probabilities of 1
    Plain out = test::zeros(dtype, tokens), log_sum = test::zeros(wide(dtype), rows);
    on({}).attention(out.view(), log_sum.view(), q.view(), k.view(), v.view(), mask.view(), 0.3,
                     false, 0, {});
    compare_all(
        {unwritten(dtype, tokens), unwritten(dtype, tokens), unwritten(dtype, tokens)},
        {g, q, k, v, out, log_sum, mask},
        [=](const Table& table, const std::vector<View>& out, const std::vector<View>& in) {
          table.attention_backward(out[0], out[1], out[2], in[0], in[1], in[2], in[3], in[4], in[5],
                                   in[6], 0.3, false, 0, {});
        },
        {}, 1);
  }
}

// The suites run this with BOOSTER_TF32 on and off.
TEST_CASE(
    "GPU: products of f32 round their operands to TF32 where BOOSTER_TF32 says so, only there" *
    on_gpu()) {
  const char* chosen = std::getenv("BOOSTER_TF32");
  const bool rounds = chosen && *chosen == '1';
  constexpr int64_t n = 64;
  for (const DType dtype : {DType::f32, DType::f64}) {
    CAPTURE(std::string(name_of(dtype)));
    const Plain a = test::zeros(dtype, {n, n}), b = test::zeros(dtype, {n, n});
    for_each_index({n, n}, [&](const Index& i) {
      a.set(i, i[0] == i[1] ? 1 + 0x1p-13 : 0);
      b.set(i, i[0] == i[1] ? 2 : 0);
    });
    const GpuCopies there({a, b}), result({unwritten(dtype, {n, n})});
    on(gpu).matmul(result.views[0], there.views[0], there.views[1], 0);
    const double want = rounds && dtype == DType::f32 ? 2 : 2 + 0x1p-12;
    CHECK(numbers(result.fetch(0, a))[0] == want);
  }
}
