// Reading and adding by index on a GPU.
#include "tests/kernels/cuda/compare.h"

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

const DType all_dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                            DType::i32, DType::i64, DType::u8,  DType::boolean};

Plain indices(const Index& shape, int64_t limit, uint32_t seed) {
  const Plain index = test::zeros(DType::i64, shape);
  std::mt19937 generator(seed);
  for_each_index(shape, [&](const Index& i) { index.set(i, double(generator() % limit)); });
  return index;
}

Plain drawn(DType dtype, const Index& shape, uint32_t seed) {
  const Plain x = random(dtype, shape, seed);
  if (dtype == DType::boolean)
    for_each_index(shape, [&](const Index& i) { x.set(i, std::fmod(std::abs(x.at(i)), 2)); });
  return x;
}

// Tensors and indices along a dimension: few and many, repeated, one element, none.
struct Case {
  Index shape;
  int dim;
  int64_t picks;
};
const Case cases[] = {{{5}, 0, 3},       {{7, 17}, 0, 200},   {{7, 17}, 1, 4},
                      {{3, 5, 4}, 1, 9}, {{2, 3, 1}, 2, 3},   {{4, 3}, 0, 0},
                      {{1, 64}, 0, 70},  {{300, 8}, 0, 5000}, {{2, 40, 3}, 1, 2100},
                      {{0, 4}, 1, 3},    {{70'000}, 0, 600}};

Index with_size(Index shape, int dim, int64_t size) {
  shape[dim] = size;
  return shape;
}

template <class Body>
void for_each_case(Body&& body) {
  for (const Case& c : cases)
    for (const DType dtype : all_dtypes) {
      CAPTURE(std::string(name_of(dtype)));
      CAPTURE(c.shape[0]);
      CAPTURE(c.picks);
      body(dtype, c.shape, c.dim, c.picks);
    }
}

// Checks that outputs with added values are bitwise equal to the CPU's: sums have the same order.
template <class Kernel>
void compare_bits(const Plain& output, const std::vector<Plain>& inputs, Kernel&& kernel) {
  const GpuCopies there(inputs);
  const GpuCopy result(output);
  kernel(on(gpu), result.view_like(output), there.views);
  const Plain want = output;
  kernel(on({}), want.view(), views_of(inputs));
  CHECK(*result.fetch(want).bytes == *want.bytes);
}

// Returns a view that starts one element later in memory.
View shifted(View view) {
  view.data = view.as<char>() + size_of(view.dtype);
  return view;
}

}  // namespace

TEST_CASE("GPU: embedding and index_select read slices as the CPU does" * on_gpu()) {
  for_each_case([](DType dtype, const Index& shape, int dim, int64_t picks) {
    const Plain x = drawn(dtype, shape, 1), index = indices({picks}, shape[dim], 2);
    compare_all({unwritten(dtype, with_size(shape, dim, picks)), unwritten(DType::i64, {1})},
                {x, index}, [=](const Table& table, const auto& out, const auto& in) {
                  table.index_select(out[0], out[1], in[0], in[1], dim);
                });
    if (dim != 0 || shape.size() != 2) return;
    const Plain rows = indices({2, picks}, shape[0], 3);
    compare_all({unwritten(dtype, {2, picks, shape[1]}), unwritten(DType::i64, {1})}, {x, rows},
                [=](const Table& table, const auto& out, const auto& in) {
                  table.embedding(out[0], out[1], in[0], in[1]);
                });
  });
}

TEST_CASE("GPU: slices that are not aligned are read too" * on_gpu()) {
  for (const DType dtype : all_dtypes) {
    const Plain x = drawn(dtype, {9 * 16 + 1}, 1), index = indices({30}, 9, 2);
    const Plain out = drawn(dtype, {30 * 16 + 1}, 3), bad = unwritten(DType::i64, {1});
    compare_all({out, bad}, {x, index},
                [=](const Table& table, const auto& results, const auto& in) {
                  View from = shifted(in[0]), to = shifted(results[0]);
                  from.ndim = to.ndim = 2;
                  from.shape[0] = 9;
                  to.shape[0] = 30;
                  for (View* view : {&from, &to}) {
                    view->shape[1] = view->strides[0] = 16;
                    view->strides[1] = 1;
                  }
                  table.embedding(to, results[1], from, in[1]);
                });
  }
}

TEST_CASE("GPU: gather picks elements and scatter_add puts them back as on the CPU" * on_gpu()) {
  for_each_case([](DType dtype, const Index& shape, int dim, int64_t picks) {
    for (const bool smaller : {false, true}) {
      Index picked = shape;
      for (int64_t& size : picked) size -= smaller && size > 1;
      picked[dim] = picks;
      const Plain x = drawn(dtype, shape, 1), index = indices(picked, shape[dim], 2);
      compare_all({unwritten(dtype, picked), unwritten(DType::i64, {1})}, {x, index},
                  [=](const Table& table, const auto& out, const auto& in) {
                    table.gather(out[0], out[1], in[0], in[1], dim);
                  });
      if (dtype == DType::boolean) continue;
      compare_bits(x, {drawn(dtype, picked, 3), index},
                   [=](const Table& table, const View& out, const auto& in) {
                     table.scatter_add(out, in[0], in[1], dim);
                   });
    }
  });
}

TEST_CASE("GPU: scatter leaves the element that the CPU writes last" * on_gpu()) {
  for_each_case([](DType dtype, const Index& shape, int dim, int64_t picks) {
    Index picked = shape;
    for (int64_t& size : picked) size -= size > 1;
    picked[dim] = picks;
    compare_bits(drawn(dtype, shape, 1), {drawn(dtype, picked, 3), indices(picked, shape[dim], 2)},
                 [=](const Table& table, const View& out, const auto& in) {
                   table.scatter(out, in[0], in[1], dim);
                 });
  });
}

TEST_CASE("GPU: index_add and embedding_backward add in the order of the indices" * on_gpu()) {
  for_each_case([](DType dtype, const Index& shape, int dim, int64_t picks) {
    if (dtype == DType::boolean) return;
    const Plain start = drawn(dtype, shape, 1), index = indices({picks}, shape[dim], 2);
    compare_bits(start, {drawn(dtype, with_size(shape, dim, picks), 3), index},
                 [=](const Table& table, const View& out, const auto& in) {
                   table.index_add(out, in[0], in[1], dim);
                 });
    if (dim != 0 || shape.size() != 2) return;
    for (const int64_t padding : {-1, 0, 4})
      compare_bits(start, {drawn(dtype, {picks, shape[1]}, 3), index},
                   [=](const Table& table, const View& out, const auto& in) {
                     table.embedding_backward(out, in[0], in[1], padding);
                   });
  });
}

TEST_CASE("GPU: the order of so many indices that several blocks count them is found, too" *
          on_gpu()) {
  const Plain start = random(DType::f32, {16}, 1), index = indices({140'000}, 16, 2);
  compare_bits(start, {random(DType::f32, {140'000}, 3), index},
               [](const Table& table, const View& out, const auto& in) {
                 table.index_add(out, in[0], in[1], 0);
               });
}

TEST_CASE("GPU: gradients of another dtype than the sum's are added" * on_gpu()) {
  const Plain start = random(DType::f32, {50, 24}, 1), index = indices({400}, 50, 2);
  compare_bits(start, {random(DType::bf16, {400, 24}, 3), index},
               [](const Table& table, const View& out, const auto& in) {
                 table.embedding_backward(out, in[0], in[1], 7);
               });
}

TEST_CASE("GPU: the first bad index is reported and nothing is read or written" * on_gpu()) {
  for (const double wrong : {-1.0, 7.0, 1e18, -1e18})
    for (const int64_t first : {0, 3, 5999, 40'000}) {
      const Plain x = random(DType::f32, {7, 3}, 1), index = indices({40'001}, 7, 2);
      index.set({first}, wrong);
      index.set({40'000}, wrong);
      const Plain square = test::zeros(DType::i64, {40'001, 1});
      std::memcpy(square.bytes->data(), index.bytes->data(), index.bytes->size());
      const Plain rows = random(DType::f32, {40'001, 3}, 3),
                  elements = random(DType::f32, {40'001, 1}, 4);
      const Plain bad = unwritten(DType::i64, {1});
      compare_all({rows, bad}, {x, index}, [](const Table& table, const auto& out, const auto& in) {
        table.embedding(out[0], out[1], in[0], in[1]);
      });
      compare_all({rows, bad}, {x, index}, [](const Table& table, const auto& out, const auto& in) {
        table.index_select(out[0], out[1], in[0], in[1], 0);
      });
      compare_all({elements, bad}, {x, square},
                  [](const Table& table, const auto& out, const auto& in) {
                    table.gather(out[0], out[1], in[0], in[1], 0);
                  });
    }
}
