// Pooling on a GPU.
#include "tests/capture_part.h"
#include "tests/kernels/cuda/compare.h"

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

struct Case {
  Index shape;
  Window2d window;
};
const Case cases[] = {
    {{2, 3, 8, 9}, {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}}},
    {{1, 1, 1, 1}, {.kernel = {1, 1}}},
    {{2, 3, 9, 8}, {.kernel = {1, 1}, .stride = {2, 3}}},
    {{2, 2, 17, 16}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
    {{1, 3, 7, 7}, {.kernel = {7, 7}}},
    {{1, 2, 30, 41}, {.kernel = {9, 11}, .stride = {3, 2}, .padding = {4, 5}}},
    {{1, 2, 9, 11}, {.kernel = {2, 2}, .stride = {4, 5}}},
    {{3, 1, 12, 10}, {.kernel = {4, 4}}},
    {{0, 3, 4, 4}, {.kernel = {2, 2}, .stride = {2, 2}}},
};

Index pooled(const Index& shape, const Window2d& w) {
  Index out = shape;
  for (int axis = 0; axis < 2; ++axis)
    out[2 + axis] =
        (shape[2 + axis] + 2 * w.padding[axis] - w.dilation[axis] * (w.kernel[axis] - 1) - 1) /
            w.stride[axis] +
        1;
  return out;
}

template <class Body>
void for_each_case(Body&& body) {
  for (const DType dtype : floating_dtypes)
    for (const auto& [shape, window] : cases) {
      CAPTURE(std::string(name_of(dtype)));
      CAPTURE_PART(shape[2]);
      body(dtype, shape, window);
    }
}

// Checks maxima, their positions, and the gradient that is sent back to the positions.
void check_max(const Plain& x, const Window2d& window) {
  const Index shape = pooled(x.shape, window);
  compare_all({unwritten(x.dtype, shape), unwritten(DType::i64, shape)}, {x},
              [=](const Table& table, const auto& out, const auto& in) {
                table.max_pool2d(out[0], out[1], in[0], window);
              });
  const Plain y = test::zeros(x.dtype, shape), index = test::zeros(DType::i64, shape);
  on({}).max_pool2d(y.view(), index.view(), x.view(), window);
  compare(unwritten(x.dtype, x.shape), {random(x.dtype, shape, 2), index},
          [](const Table& table, const View& out, const auto& in) {
            table.max_pool2d_backward(out, in[0], in[1]);
          });
}

}  // namespace

TEST_CASE("GPU: max_pool2d and its gradient agree with the CPU" * on_gpu()) {
  for_each_case([](DType dtype, const Index& shape, const Window2d& window) {
    check_max(random(dtype, shape, 1), window);
    const Plain whole = random(dtype, shape, 1);  // with ties
    for_each_index(shape, [&](const Index& i) { whole.set(i, std::round(whole.at(i) * 2)); });
    check_max(whole, window);
  });
  check_max(random(DType::f32, {1, 2, 9, 11}, 2),
            {.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 1}, .dilation = {2, 3}});
}

TEST_CASE("GPU: max_pool2d takes a nan before all" * on_gpu()) {
  const Window2d window = {.kernel = {2, 2}, .stride = {2, 2}};
  for (const DType dtype : floating_dtypes) {
    check_max(from_numbers(dtype, {1, 1, 2, 6}, {1, 1, NAN, 2, 3, NAN, 1, 1, 5, 6, NAN, 9}),
              window);
    check_max(from_numbers(dtype, {1, 1, 2, 2}, Numbers(4, -INFINITY)), window);
  }
}

TEST_CASE("GPU: max_pool2d_backward adds wherever the index points" * on_gpu()) {
  for (const DType dtype : floating_dtypes) {
    const Plain g = random(dtype, {2, 2, 6, 7}, 1), index = test::zeros(DType::i64, {2, 2, 6, 7});
    std::mt19937 generator(2);
    for_each_index(index.shape, [&](const Index& i) { index.set(i, double(generator() % 35)); });
    compare(unwritten(dtype, {2, 2, 5, 7}), {g, index},
            [](const Table& table, const View& out, const auto& in) {
              table.max_pool2d_backward(out, in[0], in[1]);
            });
  }
}

TEST_CASE("GPU: avg_pool2d and its gradient agree with the CPU" * on_gpu()) {
  for_each_case([](DType dtype, const Index& shape, const Window2d& window) {
    for (const bool count_padding : {false, true}) {
      const Index small = pooled(shape, window);
      compare(unwritten(dtype, small), {random(dtype, shape, 1)},
              [=](const Table& table, const View& out, const auto& in) {
                table.avg_pool2d(out, in[0], window, count_padding);
              });
      compare(unwritten(dtype, shape), {random(dtype, small, 2)},
              [=](const Table& table, const View& out, const auto& in) {
                table.avg_pool2d_backward(out, in[0], window, count_padding);
              });
    }
  });
}

TEST_CASE("GPU: adaptive_avg_pool2d and its gradient agree with the CPU" * on_gpu()) {
  const std::pair<Index, Index> shapes[] = {{{2, 3, 7, 9}, {2, 3, 3, 4}},
                                            {{2, 2, 16, 33}, {2, 2, 1, 1}},
                                            {{1, 2, 3, 4}, {1, 2, 7, 9}},
                                            {{1, 1, 5, 5}, {1, 1, 5, 5}},
                                            {{2, 0, 5, 5}, {2, 0, 2, 2}}};
  for (const DType dtype : floating_dtypes)
    for (const auto& [large, small] : shapes) {
      CAPTURE(std::string(name_of(dtype)));
      compare(unwritten(dtype, small), {random(dtype, large, 1)},
              [](const Table& table, const View& out, const auto& in) {
                table.adaptive_avg_pool2d(out, in[0]);
              });
      compare(unwritten(dtype, large), {random(dtype, small, 2)},
              [](const Table& table, const View& out, const auto& in) {
                table.adaptive_avg_pool2d_backward(out, in[0]);
              });
    }
}
