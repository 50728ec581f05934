// Normalisations of numbers close to each other and far from zero, on a GPU.
#include "tests/kernels/cuda/compare.h"

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

using Views = std::vector<View>;

// Returns a constant; with `spread` plus whole spacings of f32 near it.
Plain far_numbers(const Index& shape, bool spread) {
  const Plain x = zeros(DType::f32, shape);
  std::mt19937 generator(3);
  for_each_index(shape, [&](const Index& at) {
    const auto steps = spread ? static_cast<int>(generator() % 9) - 4 : 0;
    x.set(at, 1234.5 + steps * 0x1p-13);
  });
  return x;
}

// Returns a gradient as small as the numbers' spread: the gradient of x is then as large as y.
Plain small_gradient(const Index& shape) {
  const Plain g = random(DType::f32, shape, 2);
  for_each_index(shape, [&](const Index& at) { g.set(at, g.at(at) * 0x1p-13); });
  return g;
}

Plain rows(int64_t n) { return unwritten(DType::f64, {n}); }
Plain columns(int64_t n) { return unwritten(DType::f32, {n}); }

}  // namespace

TEST_CASE("GPU: layer norm far from zero, forward and backward, agrees with the CPU" * on_gpu()) {
  for (const bool spread : {false, true})
    for (const int64_t n : {7, 768, 1030, 20'001}) {
      CAPTURE(n);
      const Index shape = {3, n};
      compare_all(
          {unwritten(DType::f32, shape), rows(3), columns(3), unwritten(DType::f32, shape),
           columns(n), columns(n)},
          {far_numbers(shape, spread), small_gradient(shape)},
          [](const Table& on, const Views& out, const Views& in) {
            on.layer_norm(out[0], out[1], out[2], in[0], {}, {}, 1e-10);
            on.layer_norm_backward(out[3], out[4], out[5], in[1], {}, in[0], out[1], out[2], {});
          },
          DType::f32, 4);
    }
}

TEST_CASE("GPU: group and batch norm far from zero agree with the CPU" * on_gpu()) {
  for (const bool spread : {false, true})
    for (const Index& shape : {Index{2, 4, 100}, Index{3, 6, 1111}, Index{40, 2, 9}}) {
      CAPTURE(shape[2]);
      const int64_t c = shape[1], sets = shape[0] * 2;
      const std::vector<Plain> in = {far_numbers(shape, spread), small_gradient(shape)};
      const Plain y = unwritten(DType::f32, shape);
      compare_all(
          {y, rows(sets), columns(sets), y, columns(c), columns(c)}, in,
          [](const Table& on, const Views& out, const Views& in) {
            on.group_norm(out[0], out[1], out[2], in[0], {}, {}, 2, 1e-10);
            on.group_norm_backward(out[3], out[4], out[5], in[1], in[0], out[1], out[2], {}, 2);
          },
          DType::f32, 4);
      compare_all(
          {y, rows(c), columns(c), y, columns(c), columns(c)}, in,
          [](const Table& on, const Views& out, const Views& in) {
            on.batch_norm(out[0], out[1], out[2], in[0], {}, {}, {}, {}, true, 0, 1e-10);
            on.batch_norm_backward(out[3], out[4], out[5], in[1], in[0], out[1], out[2], {}, true);
          },
          DType::f32, 4);
    }
}
