// Reading and adding by index against plain loops.
#include "tests/kernels/everywhere.h"

using namespace booster;
using namespace booster::kernels::test;
using kernels::Table;

namespace {

Plain indices(const std::vector<int64_t>& shape, int64_t limit, uint32_t seed) {
  Plain index = zeros(DType::i64, shape);
  std::mt19937 generator(seed);
  for_each_index(shape, [&](const Index& i) { index.set(i, double(generator() % limit)); });
  return index;
}

// Returns `at` with its coordinate along dim replaced.
Index moved(Index at, int dim, double to) {
  at[dim] = static_cast<int64_t>(to);
  return at;
}

struct Case {
  std::vector<int64_t> shape;
  int dim;
  int64_t picks;
};
const Case cases[] = {{{5}, 0, 3},       {{7, 17}, 0, 200}, {{7, 17}, 1, 4},
                      {{3, 5, 4}, 1, 9}, {{2, 3, 1}, 2, 3}, {{4, 3}, 0, 0}};

// `add` adds values of shape `picked` to a tensor of `shape`, each at target(its index).
template <class Target, class Add>
void check_adding_back(DType dtype, const std::vector<int64_t>& shape,
                       const std::vector<int64_t>& picked, const Target& target, const Add& add) {
  const Plain g = random(dtype, picked, 3), sum = zeros(dtype, shape);
  const Plain exact = zeros(DType::f64, shape);
  for_each_index(shape, [&](const Index& i) { exact.set(i, 1); });
  for_each_index(picked,
                 [&](const Index& i) { exact.set(target(i), exact.at(target(i)) + g.at(i)); });
  check_everywhere([&](const Table& on) { add(on, sum.view(), g.view()); },
                   {{sum, numbers(exact), 40, 1}});
}

}  // namespace

TEST_CASE("embedding reads rows of every dtype; its gradient adds up rows but not the padding's") {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::u8}) {
    CAPTURE(name_of(dtype));
    const Plain table = random(dtype, {11, 17}, 1), index = indices({3, 40}, 11, 2);
    const Plain out = zeros(dtype, {3, 40, 17}), bad = zeros(DType::i64, {1});
    Numbers want;
    for_each_index(out.shape, [&](const Index& i) {
      want.push_back(table.at({static_cast<int64_t>(index.at({i[0], i[1]})), i[2]}));
    });
    check_everywhere(
        [&](const Table& on) { on.embedding(out.view(), bad.view(), table.view(), index.view()); },
        {{out, want, 0}, {bad, {-1}}});
    if (!is_floating(dtype)) continue;
    for (const int64_t padding : {-1, 4}) {
      const Plain g = random(dtype, {3, 40, 17}, 3), dtable = zeros(dtype, {11, 17});
      Numbers sums(11 * 17, 0.5);
      for_each_index(g.shape, [&](const Index& i) {
        const auto row = static_cast<int64_t>(index.at({i[0], i[1]}));
        if (row != padding) sums[row * 17 + i[2]] += g.at(i);
      });
      check_everywhere(
          [&](const Table& on) {
            on.embedding_backward(dtable.view(), g.view(), index.view(), padding);
          },
          {{dtable, sums, 20, 0.5}});
    }
  }
}

TEST_CASE("index_select picks slices along any dimension and index_add puts them back") {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::boolean})
    for (const auto& [shape, dim, picks] : cases) {
      CAPTURE(name_of(dtype));
      const int along = dim;
      const Plain x = random(dtype, shape, 1), index = indices({picks}, shape[dim], 2);
      std::vector<int64_t> picked = shape;
      picked[dim] = picks;
      const Plain out = zeros(dtype, picked), bad = zeros(DType::i64, {1});
      Numbers want;
      for_each_index(picked, [&](const Index& i) {
        want.push_back(x.at(moved(i, along, index.at({i[along]}))));
      });
      check_everywhere(
          [&](const Table& on) {
            on.index_select(out.view(), bad.view(), x.view(), index.view(), along);
          },
          {{out, want, 0}, {bad, {-1}}});
      if (dtype == DType::boolean) continue;
      check_adding_back(
          dtype, shape, picked,
          [&](const Index& i) { return moved(i, along, index.at({i[along]})); },
          [&](const Table& on, const kernels::View& sum, const kernels::View& g) {
            on.index_add(sum, g, index.view(), along);
          });
    }
}

TEST_CASE("gather picks elements along any dimension and scatter_add puts them back") {
  for (const DType dtype :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::boolean})
    for (const auto& [shape, dim, picks] : cases)
      for (const bool smaller : {false, true}) {
        CAPTURE(name_of(dtype));
        const int along = dim;
        std::vector<int64_t> picked = shape;
        for (int64_t& size : picked) size -= smaller && size > 1;
        picked[dim] = picks;
        const Plain x = random(dtype, shape, 1), index = indices(picked, shape[dim], 2);
        const Plain out = zeros(dtype, picked), bad = zeros(DType::i64, {1});
        Numbers want;
        for_each_index(picked,
                       [&](const Index& i) { want.push_back(x.at(moved(i, along, index.at(i)))); });
        check_everywhere(
            [&](const Table& on) {
              on.gather(out.view(), bad.view(), x.view(), index.view(), along);
            },
            {{out, want, 0}, {bad, {-1}}});
        if (dtype == DType::boolean) continue;
        check_adding_back(
            dtype, shape, picked, [&](const Index& i) { return moved(i, along, index.at(i)); },
            [&](const Table& on, const kernels::View& sum, const kernels::View& g) {
              on.scatter_add(sum, g, index.view(), along);
            });
      }
}

TEST_CASE("scatter writes elements along any dimension, and the last of several stays") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::i64, DType::u8, DType::boolean})
    for (const auto& [shape, dim, picks] : cases) {
      CAPTURE(name_of(dtype));
      const int along = dim;
      std::vector<int64_t> picked = shape;
      for (int64_t& size : picked) size -= size > 1;
      picked[dim] = picks;
      const Plain index = indices(picked, shape[dim], 2), out = zeros(dtype, shape),
                  src = indices(picked, 2, 3), numbers_of_dtype = zeros(dtype, picked);
      const Plain want = zeros(DType::f64, shape);
      for_each_index(picked, [&](const Index& i) {
        numbers_of_dtype.set(i, src.at(i));
        want.set(moved(i, along, index.at(i)), src.at(i));
      });
      check_everywhere(
          [&](const Table& on) {
            on.scatter(out.view(), numbers_of_dtype.view(), index.view(), along);
          },
          {{out, numbers(want), 0}});
    }
}

TEST_CASE("a bad index is reported by its position and nothing is written") {
  for (const double wrong : {-1.0, 7.0}) {
    const Plain x = random(DType::f32, {7, 3}, 1), index = indices({5}, 7, 2),
                square = indices({5, 3}, 7, 2);
    index.set({3}, wrong);
    index.set({4}, wrong);
    square.set({2, 1}, wrong);
    const Plain out = zeros(DType::f32, {5, 3}), bad = zeros(DType::i64, {1});
    const Numbers untouched(15, 0.25);
    check_everywhere(
        [&](const Table& on) { on.embedding(out.view(), bad.view(), x.view(), index.view()); },
        {{out, untouched, 0, 0.25}, {bad, {3}}});
    check_everywhere(
        [&](const Table& on) {
          on.index_select(out.view(), bad.view(), x.view(), index.view(), 0);
        },
        {{out, untouched, 0, 0.25}, {bad, {3}}});
    check_everywhere(
        [&](const Table& on) { on.gather(out.view(), bad.view(), x.view(), square.view(), 0); },
        {{out, untouched, 0, 0.25}, {bad, {7}}});
  }
}
