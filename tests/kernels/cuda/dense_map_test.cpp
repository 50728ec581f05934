// Elementwise kernels on a GPU read four elements at a time if they can. Tests any alignment, mixed
// dtypes, broadcast rows and columns.
#include "tests/capture_part.h"
#include "tests/draws.h"
#include "tests/kernels/cuda/compare.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <random>

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

const DType quad_dtypes[] = {DType::f32, DType::f16, DType::bf16};

// Returns the n elements from `first` on.
View part(View view, int64_t first, int64_t n) {
  view.data = view.as<char>() + first * size_of(view.dtype);
  view.shape[0] = n;
  return view;
}

// Checks y[of_y ...] = a[of_a ...] * b[of_b ...], and that surrounding elements are unchanged.
void check_parts(DType y, DType a, DType b, int64_t of_y, int64_t of_a, int64_t of_b, int64_t n) {
  const int64_t room = n + 8;
  compare(random(y, {room}, 1), {random(a, {room}, 2), random(b, {room}, 3)},
          [=](const Table& table, const View& out, const std::vector<View>& in) {
            table.binary(BinaryOp::mul, part(out, of_y, n), part(in[0], of_a, n),
                         part(in[1], of_b, n));
          });
}

}  // namespace

TEST_CASE("GPU: elementwise operands may begin and end anywhere" * on_gpu()) {
  for (const int64_t n : {1, 3, 4, 5, 8, 2049, 5003})
    for (int64_t first = 0; first < 6; ++first)
      for (const int64_t other : {first, int64_t(0), first + 1}) {
        CAPTURE(n);
        CAPTURE(first);
        check_parts(DType::f32, DType::f32, DType::f32, first, first, other, n);
        check_parts(DType::bf16, DType::f32, DType::f16, first, other, first, n);
        check_parts(DType::f16, DType::bf16, DType::bf16, other, first, first, n);
      }
}

TEST_CASE("GPU: elementwise operands may have any mixture of dtypes" * on_gpu()) {
  for (const DType y : quad_dtypes)
    for (const DType a : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32})
      for (const DType b : quad_dtypes) check_parts(y, a, b, 0, 0, 0, 1027);
  for (const DType dtype : quad_dtypes) {
    const Plain condition = random(DType::f32, {3000}, 1), x = random(dtype, {3000}, 2);
    compare_all({unwritten(DType::boolean, {3000}), unwritten(dtype, {3000})}, {condition, x},
                [](const Table& table, const auto& out, const auto& in) {
                  table.compare(CompareOp::less, out[0], in[0], in[1]);
                  table.where(out[1], out[0], in[1], in[0]);
                  table.accumulate(out[1], in[0]);
                });
  }
}

TEST_CASE("GPU: rows and columns are broadcast over elementwise operands" * on_gpu()) {
  struct Layout {
    Index shape, strides;
  };
  const Layout layouts[] = {{{90, 64}, {0, 1}},        {{90, 64}, {1, 0}},       {{90, 62}, {0, 1}},
                            {{90, 64}, {66, 1}},       {{90, 64}, {68, 1}},      {{90, 64}, {0, 0}},
                            {{7, 12, 20}, {0, 20, 1}}, {{7, 12, 20}, {12, 1, 0}}};
  for (const DType dtype : floating_dtypes)
    for (const DType other : {dtype, DType::f32})
      for (const auto& [shape, strides] : layouts) {
        CAPTURE(std::string(name_of(dtype)));
        CAPTURE_PART(strides[0]);
        const Plain x = random(dtype, shape, 1), y = random(other, shape, strides, 2);
        compare(unwritten(dtype, shape), {x, y},
                [](const Table& table, const View& out, const std::vector<View>& in) {
                  table.binary(BinaryOp::add, out, in[0], in[1]);
                  table.unary_backward(UnaryOp::tanh, out, out, in[1], in[0]);
                  table.binary_scalar(BinaryOp::sub, out, out, 0.5, true);
                });
      }
}

namespace {

// Returns strides of a dense tensor with a random order of dimensions.
std::vector<int64_t> drawn_strides(std::mt19937& drawn, const Index& shape) {
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), drawn);
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (const size_t dim : order) {
    strides[dim] = stride;
    stride *= shape[dim];
  }
  return strides;
}

}  // namespace

TEST_CASE("GPU: copies between drawn orders of dimensions agree with the CPU" * on_gpu()) {
  const DType dtypes[] = {DType::f32,     DType::f16, DType::bf16,
                          DType::boolean, DType::f64, DType::i64};
  for (const unsigned i : booster::testing::draws(150)) {
    std::mt19937 drawn(i);
    Index shape(1 + drawn() % 4);
    for (int64_t& size : shape) size = 1 + static_cast<int64_t>(drawn() % (drawn() % 2 ? 70 : 9));
    const DType from = dtypes[drawn() % std::size(dtypes)],
                to = dtypes[drawn() % std::size(dtypes)];
    const std::vector<int64_t> in_memory = drawn_strides(drawn, shape);
    const std::vector<int64_t> wanted = drawn_strides(drawn, shape);
    const std::string text =
        fmt::format("{} to {}, shape {}, strides {} to {}", name_of(from), name_of(to),
                    fmt::join(shape, " "), fmt::join(in_memory, " "), fmt::join(wanted, " "));
    CAPTURE(text);
    Plain in(from, shape, in_memory), out(to, shape, wanted);
    for_each_index(shape, [&](const Index& at) {
      in.set(at, from == DType::boolean ? drawn() % 2 : static_cast<double>(drawn() % 256));
      out.set(at, 1);
    });
    compare(out, {in}, [](const Table& table, const View& there, const std::vector<View>& of) {
      table.copy(there, of[0]);
    });
  }
}
