// The convolution algorithms that are used where they are faster (cpu/convolution_choice.h), in
// random geometries. The choice depends on the processor; BOOSTER_CPU_VARIANT=avx2 forces these
// algorithms.
#include "kernels/arguments/convolution.h"
#include "tests/kernels/everywhere.h"

#include <fmt/format.h>

#include <random>

using namespace booster;
using namespace booster::kernels::test;
using kernels::Table;
using kernels::View;
using kernels::Window2d;

namespace {

class Draw {
 public:
  explicit Draw(uint32_t seed) : generator_(seed) {}
  int64_t operator()(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(generator_);
  }
  int64_t one_of(const std::vector<int64_t>& values) {
    return values[static_cast<size_t>((*this)(0, static_cast<int64_t>(values.size()) - 1))];
  }

 private:
  std::mt19937 generator_;
};

struct Geometry {
  int64_t images, channels, outputs, x_size[2];
  Window2d window;

  int64_t y_size(int axis) const {
    return (x_size[axis] + 2 * window.padding[axis] -
            window.dilation[axis] * (window.kernel[axis] - 1) - 1) /
               window.stride[axis] +
           1;
  }
  std::vector<int64_t> x() const { return {images, channels, x_size[0], x_size[1]}; }
  std::vector<int64_t> y() const { return {images, outputs, y_size(0), y_size(1)}; }
  std::vector<int64_t> weight() const {
    return {outputs, channels, window.kernel[0], window.kernel[1]};
  }
  std::string text() const {
    return fmt::format(
        "{} images of {} x {}, {} > {} channels, kernel {} x {}, stride {} {}, "
        "padding {} {}, dilation {} {}",
        images, x_size[0], x_size[1], channels, outputs, window.kernel[0], window.kernel[1],
        window.stride[0], window.stride[1], window.padding[0], window.padding[1],
        window.dilation[0], window.dilation[1]);
  }
};

// Draws sizes from `least` on, with at least one output position.
Geometry draw_geometry(Draw& draw, int64_t least, int64_t most) {
  Geometry g;
  do {
    g = {draw(1, 3), draw(1, 36), draw(1, 20), {draw(least, most), draw(least, most)}, {}};
    for (const int axis : {0, 1}) {
      g.window.kernel[axis] = draw(1, 4);
      g.window.stride[axis] = draw.one_of({1, 1, 2, 3});
      g.window.dilation[axis] = draw.one_of({1, 1, 2});
      g.window.padding[axis] = draw(0, 3);
    }
  } while (g.y_size(0) < 1 || g.y_size(1) < 1);
  return g;
}

// Returns the weight's gradient by its definition.
Numbers weight_gradient(const Geometry& geometry, const Plain& g, const Plain& x) {
  const Window2d& w = geometry.window;
  Numbers sums;
  for_each_index(geometry.weight(), [&](const Index& i) {
    double sum = 0;
    for_each_index({geometry.images, geometry.y_size(0), geometry.y_size(1)}, [&](const Index& p) {
      const int64_t row = p[1] * w.stride[0] - w.padding[0] + i[2] * w.dilation[0];
      const int64_t column = p[2] * w.stride[1] - w.padding[1] + i[3] * w.dilation[1];
      if (row >= 0 && row < x.shape[2] && column >= 0 && column < x.shape[3])
        sum += g.at({p[0], i[0], p[1], p[2]}) * x.at({p[0], i[1], row, column});
    });
    sums.push_back(sum);
  });
  return sums;
}

void check_loop(const Geometry& geometry, DType dtype, bool weight_has_channels_last) {
  const std::string work = fmt::format("{}, {}", name_of(dtype), geometry.text());
  CAPTURE(work);
  const Plain x = channels_last(random(dtype, geometry.x(), 1));
  const Plain g = channels_last(random(dtype, geometry.y(), 2));
  const Plain plain = zeros(DType::f32, geometry.weight());
  const Plain dweight = weight_has_channels_last ? channels_last(plain) : plain;
  check_everywhere(
      [&](const Table& table) {
        table.conv2d_weight_loop(dweight.view(), g.view(), x.view(), geometry.window);
      },
      {{dweight, weight_gradient(geometry, g, x),
        static_cast<double>(geometry.images * geometry.y_size(0) * geometry.y_size(1)), NAN}});
}

// Returns the same tensor as f64.
Plain widened(const Plain& tensor) {
  const Plain wide(DType::f64, tensor.shape, contiguous_strides(tensor.shape));
  for_each_index(tensor.shape, [&](const Index& i) { wide.set(i, tensor.at(i)); });
  return wide;
}

// Runs a pass on the tensors, and in f64, which has a single algorithm.
using Pass = std::function<void(const Plain& out, const Plain& left, const Plain& right)>;
void check_as_in_f64(const Pass& pass, const Plain& out, const Plain& left, const Plain& right,
                     double terms) {
  out.fill_bytes(0xFF);
  pass(out, left, right);
  const Plain want = widened(out);
  pass(want, widened(left), widened(right));
  check_output({out, numbers(want), terms});
}

void check_passes(const Geometry& geometry, DType dtype) {
  const std::string work = fmt::format("{}, {}", name_of(dtype), geometry.text());
  CAPTURE(work);
  const Plain x = channels_last(random(dtype, geometry.x(), 1)),
              y = channels_last(random(dtype, geometry.y(), 2)),
              weight = random(dtype, geometry.weight(), 3);
  const Window2d& w = geometry.window;
  const double taps = static_cast<double>(w.kernel[0] * w.kernel[1]);
  const Table& table = kernels::on({});
  check_as_in_f64(
      [&](const Plain& out, const Plain& left, const Plain& right) {
        table.conv2d(out.view(), left.view(), right.view(), {}, w);
      },
      Plain(y), x, weight, taps * static_cast<double>(geometry.channels));
  check_as_in_f64(
      [&](const Plain& out, const Plain& left, const Plain& right) {
        table.conv2d_backward_weight(out.view(), {}, left.view(), right.view(), w);
      },
      Plain(weight), y, x, static_cast<double>(y.shape[0] * y.shape[2] * y.shape[3]));
}

}  // namespace

TEST_CASE("a weight's gradient by the loop is the sum over all positions, in drawn geometries") {
  Draw draw(7);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (int i = 0; i < 30; ++i) check_loop(draw_geometry(draw, 1, 9), dtype, i % 3 == 0);
    check_loop({1, 4, 16, {1, 1}, {{1, 1}}}, dtype, false);
    check_loop({35, 8, 16, {5, 4}, {{3, 3}, {1, 1}, {1, 1}}}, dtype, false);   // parts of several
    check_loop({3, 6, 9, {2, 1200}, {{2, 3}, {1, 1}, {0, 1}}}, dtype, false);  // a row is a block
    check_loop({2, 3, 2, {2, 3}, {{1, 1}, {9, 9}, {3, 4}}}, dtype, false);     // padding alone
    check_loop({2, 16, 8, {70, 24}, {{3, 3}, {2, 1}, {1, 1}}}, dtype, false);  // blocks of rows
  }
}

TEST_CASE("convolutions of many positions with channels last are those of f64, however computed") {
  Draw draw(11);
  for (int i = 0; i < 24; ++i) {
    Geometry geometry = draw_geometry(draw, 24, 40);
    geometry.channels = 8 * draw(1, 4);
    geometry.outputs = 8 * draw(1, 4);
    if (i % 2 == 0) geometry.window.stride[0] = geometry.window.stride[1] = 1;
    geometry.images = 1 + 4096 / (geometry.y_size(0) * geometry.y_size(1));
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) check_passes(geometry, dtype);
  }
}
