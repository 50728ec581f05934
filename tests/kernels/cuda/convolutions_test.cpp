// Convolutions and their gradients on a GPU. The suites run them with cuDNN, without it, and with
// an emulated cuDNN that refuses some.
#include "tests/draws.h"
#include "tests/kernels/cuda/compare.h"

#include <algorithm>
#include <cstdlib>

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

constexpr double terms = 3;  // the size of a sum of some hundred terms

}  // namespace

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

namespace {

// A convolution with random valid sizes.
struct Drawn {
  explicit Drawn(std::mt19937& random) {
    const auto draw = [&](int64_t from, int64_t to) {
      return from + static_cast<int64_t>(random() % static_cast<uint64_t>(to - from + 1));
    };
    window.groups = draw(1, 3);
    const int64_t images = draw(1, 3), channels = draw(1, 5), features = draw(1, 5);
    int64_t sides[2], results[2];
    for (int i = 0; i < 2; ++i) {
      window.kernel[i] = draw(1, 4);
      window.stride[i] = draw(1, 3);
      window.padding[i] = draw(0, 2);
      window.dilation[i] = draw(1, 3);
      const int64_t reach = window.dilation[i] * (window.kernel[i] - 1) + 1;
      sides[i] = std::max<int64_t>(1, reach - 2 * window.padding[i]) + draw(0, 9);
      results[i] = (sides[i] + 2 * window.padding[i] - reach) / window.stride[i] + 1;
    }
    x = {images, channels * window.groups, sides[0], sides[1]};
    weight = {features * window.groups, channels, window.kernel[0], window.kernel[1]};
    y = {images, features * window.groups, results[0], results[1]};
    channels_last = draw(0, 2) == 0;
    offset = draw(0, 2) == 0 ? draw(1, 3) : 0;
    dtype = floating_dtypes[draw(0, std::size(floating_dtypes) - 1)];
    gradient_dtype = draw(0, 1) ? wide(dtype) : dtype;
    has_bias = draw(0, 1);
  }
  Index x, weight, y;
  Window2d window = {};
  bool channels_last, has_bias;
  int64_t offset;  // of x in its memory
  DType dtype, gradient_dtype;

  int64_t room_for_x() const { return offset + x[0] * x[1] * x[2] * x[3]; }
  View x_in(View memory) const {
    memory.data = memory.as<char>() + offset * size_of(memory.dtype);
    memory.ndim = 4;
    const Index by_rows = {x[1] * x[2] * x[3], x[2] * x[3], x[3], 1};
    const Index by_channels = {x[1] * x[2] * x[3], 1, x[3] * x[1], x[1]};
    std::copy(x.begin(), x.end(), memory.shape);
    const Index& strides = channels_last ? by_channels : by_rows;
    std::copy(strides.begin(), strides.end(), memory.strides);
    return memory;
  }
};

}  // namespace

TEST_CASE("GPU: drawn convolutions and their gradients agree with the CPU, and write nothing else" *
          on_gpu()) {
  for (const unsigned i : booster::testing::draws(120)) {
    std::mt19937 random_cases(i);
    const Drawn c(random_cases);
    CAPTURE(i);
    CAPTURE(std::string(name_of(c.dtype)));
    CAPTURE(c.window.groups);
    const Plain x = random(c.dtype, {c.room_for_x()}, 1), weight = random(c.dtype, c.weight, 2);
    const Plain bias = random(c.dtype, {c.weight[0]}, 3), g = random(c.dtype, c.y, 4);
    compare(
        unwritten(c.dtype, c.y), {x, weight, bias},
        [&](const Table& table, View out, const std::vector<View>& in) {
          table.conv2d(out, c.x_in(in[0]), in[1], c.has_bias ? in[2] : View{}, c.window);
        },
        {}, terms);
    compare(
        random(c.dtype, {c.room_for_x()}, 5), {g, weight},
        [&](const Table& table, View out, const std::vector<View>& in) {
          table.conv2d_backward_input(c.x_in(out), in[0], in[1], c.window);
        },
        {}, terms);
    // The gradient of a 16-bit weight is accumulated in f32 without intermediate rounding.
    compare_all(
        {unwritten(c.gradient_dtype, c.weight), unwritten(c.gradient_dtype, {c.weight[0]})}, {g, x},
        [&](const Table& table, const std::vector<View>& out, const std::vector<View>& in) {
          table.conv2d_backward_weight(out[0], c.has_bias ? out[1] : View{}, in[0], c.x_in(in[1]),
                                       c.window);
          if (!c.has_bias) table.fill(out[1], 0);
        },
        c.gradient_dtype, terms);
  }
}

// The suites run this with BOOSTER_TF32 on and off: with TF32 it shows that cuDNN is used.
TEST_CASE(
    "GPU: convolutions of f32 round their operands to TF32 where BOOSTER_TF32 says so, those of "
    "f64 never" *
    on_gpu()) {
  const char* chosen = std::getenv("BOOSTER_TF32");
  const bool rounds = chosen && *chosen == '1';
  for (const DType dtype : {DType::f32, DType::f64}) {
    CAPTURE(std::string(name_of(dtype)));
    const Plain x = test::zeros(dtype, {1, 1, 1, 1}), weight = test::zeros(dtype, {1, 1, 1, 1});
    x.set({0, 0, 0, 0}, 1 + 0x1p-13);
    weight.set({0, 0, 0, 0}, 2);
    const GpuCopies there({x, weight}), result({unwritten(dtype, {1, 1, 1, 1})});
    on(gpu).conv2d(result.views[0], there.views[0], there.views[1], {}, {{1, 1}});
    const double want = rounds && dtype == DType::f32 ? 2 : 2 + 0x1p-12;
    CHECK(numbers(result.fetch(0, x))[0] == want);
  }
}
