// Pooling against plain loops that visit every position of every window and skip those outside.
#include "tests/kernels/everywhere.h"

using namespace booster;
using namespace booster::kernels::test;
using kernels::Table;
using kernels::Window2d;

namespace {

struct Case {
  std::vector<int64_t> shape;
  Window2d window;
};
const Case cases[] = {{{2, 3, 8, 9}, {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 1}}},
                      {{1, 1, 1, 1}, {.kernel = {1, 1}}},
                      {{2, 3, 9, 8}, {.kernel = {1, 1}, .stride = {2, 3}}},
                      {{2, 2, 17, 16}, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}},
                      {{1, 3, 7, 7}, {.kernel = {7, 7}}},
                      {{0, 3, 4, 4}, {.kernel = {2, 2}, .stride = {2, 2}}}};

std::vector<int64_t> pooled(const std::vector<int64_t>& shape, const Window2d& w) {
  std::vector<int64_t> out = shape;
  for (int axis = 0; axis < 2; ++axis)
    out[2 + axis] =
        (shape[2 + axis] + 2 * w.padding[axis] - w.dilation[axis] * (w.kernel[axis] - 1) - 1) /
            w.stride[axis] +
        1;
  return out;
}

// Calls body(position in x) for the valid positions of the window at i.
template <class Body>
void for_each_place(const Index& i, const std::vector<int64_t>& shape, const Window2d& w,
                    Body&& body) {
  for (int64_t a = 0; a < w.kernel[0]; ++a)
    for (int64_t b = 0; b < w.kernel[1]; ++b) {
      const int64_t row = i[2] * w.stride[0] - w.padding[0] + a * w.dilation[0];
      const int64_t column = i[3] * w.stride[1] - w.padding[1] + b * w.dilation[1];
      if (row >= 0 && row < shape[2] && column >= 0 && column < shape[3])
        body(Index{i[0], i[1], row, column});
    }
}

void check_max(const Plain& x, const Window2d& window) {
  const std::vector<int64_t> shape = pooled(x.shape, window);
  const Plain y = zeros(x.dtype, shape), places = zeros(DType::i64, shape);
  Numbers largest, at;
  for_each_index(shape, [&](const Index& i) {
    double best = -INFINITY, place = -1;
    for_each_place(i, x.shape, window, [&](const Index& p) {
      const double value = x.at(p);
      if (place >= 0 && !(value > best) && !std::isnan(value)) return;
      best = value;
      place = double(p[2] * x.shape[3] + p[3]);
    });
    largest.push_back(best);
    at.push_back(place);
  });
  check_everywhere(
      [&](const Table& on) { on.max_pool2d(y.view(), places.view(), x.view(), window); },
      {{y, largest, 0}, {places, at, 0}});
}

Numbers mean_of_windows(const Plain& x, const Window2d& window, bool count_padding) {
  Numbers means;
  for_each_index(pooled(x.shape, window), [&](const Index& i) {
    double sum = 0, count = 0;
    for_each_place(i, x.shape, window, [&](const Index& p) { sum += x.at(p), ++count; });
    means.push_back(sum / (count_padding ? double(window.kernel[0] * window.kernel[1]) : count));
  });
  return means;
}

}  // namespace

TEST_CASE("max_pool2d finds each window's largest element and where it is") {
  for (const DType dtype : floating_dtypes)
    for (const auto& [shape, window] : cases) {
      CAPTURE(name_of(dtype));
      check_max(random(dtype, shape, 1), window);
    }
  check_max(random(DType::f32, {1, 2, 9, 11}, 2),
            {.kernel = {3, 2}, .stride = {1, 2}, .padding = {1, 1}, .dilation = {2, 3}});
}

TEST_CASE("max_pool2d takes the first of equals, and a nan before all") {
  const Window2d window = {.kernel = {2, 2}, .stride = {2, 2}};
  check_max(from_numbers(DType::f32, {1, 1, 2, 6}, {1, 1, NAN, 2, 3, NAN, 1, 1, 5, 6, NAN, 9}),
            window);
  check_max(from_numbers(DType::f32, {1, 1, 2, 2}, Numbers(4, -INFINITY)), window);
}

TEST_CASE("max_pool2d_backward adds each gradient at its maximum") {
  for (const DType dtype : floating_dtypes) {
    CAPTURE(name_of(dtype));
    const Plain g = random(dtype, {2, 3, 4, 4}, 1), dx = zeros(dtype, {2, 3, 7, 7});
    const Plain places = zeros(DType::i64, {2, 3, 4, 4});
    Numbers want(2 * 3 * 49);
    for_each_index(g.shape, [&](const Index& i) {
      const int64_t place = (i[2] * 13 + i[3] * 5) % 49;
      places.set(i, double(place));
      want[(i[0] * 3 + i[1]) * 49 + place] += g.at(i);
    });
    check_everywhere(
        [&](const Table& on) { on.max_pool2d_backward(dx.view(), g.view(), places.view()); },
        {{dx, want, 4, 7}});
  }
}

TEST_CASE("avg_pool2d divides by the window, with or without its padding, and spreads gradients") {
  for (const DType dtype : floating_dtypes)
    for (const auto& [shape, window] : cases)
      for (const bool count_padding : {true, false}) {
        CAPTURE(name_of(dtype));
        const Window2d w = window;
        const Plain x = random(dtype, shape, 1), y = zeros(dtype, pooled(shape, w));
        check_everywhere(
            [&](const Table& on) { on.avg_pool2d(y.view(), x.view(), w, count_padding); },
            {{y, mean_of_windows(x, w, count_padding), 1}});
        const Plain g = random(dtype, y.shape, 2), dx = zeros(dtype, shape),
                    exact = zeros(DType::f64, shape);
        for_each_index(y.shape, [&](const Index& i) {
          double count = count_padding ? double(w.kernel[0] * w.kernel[1]) : 0;
          if (!count_padding) for_each_place(i, x.shape, w, [&](const Index&) { ++count; });
          for_each_place(i, x.shape, w,
                         [&](const Index& p) { exact.set(p, exact.at(p) + g.at(i) / count); });
        });
        check_everywhere(
            [&](const Table& on) { on.avg_pool2d_backward(dx.view(), g.view(), w, count_padding); },
            {{dx, numbers(exact), 4, 7}});
      }
}

TEST_CASE("adaptive_avg_pool2d covers every place, whatever the sizes, and spreads gradients") {
  const std::vector<int64_t> outputs[] = {{1, 1}, {3, 5}, {7, 7}, {10, 9}};
  for (const DType dtype : floating_dtypes)
    for (const auto& sizes : outputs) {
      CAPTURE(name_of(dtype));
      const std::vector<int64_t> shape = {2, 3, 7, 12};
      const Plain x = random(dtype, shape, 1), y = zeros(dtype, {2, 3, sizes[0], sizes[1]});
      const Plain g = random(dtype, y.shape, 2), dx = zeros(dtype, shape),
                  exact = zeros(DType::f64, shape);
      Numbers means;
      for_each_index(y.shape, [&](const Index& i) {
        const auto begin = [&](int axis) {
          return std::floor(double(i[axis] * shape[axis]) / y.shape[axis]);
        };
        const auto end = [&](int axis) {
          return std::ceil(double((i[axis] + 1) * shape[axis]) / y.shape[axis]);
        };
        const double count = (end(2) - begin(2)) * (end(3) - begin(3));
        double sum = 0;
        for (auto h = int64_t(begin(2)); h < end(2); ++h)
          for (auto w = int64_t(begin(3)); w < end(3); ++w) {
            const Index place = {i[0], i[1], h, w};
            sum += x.at(place);
            exact.set(place, exact.at(place) + g.at(i) / count);
          }
        means.push_back(sum / count);
      });
      check_everywhere([&](const Table& on) { on.adaptive_avg_pool2d(y.view(), x.view()); },
                       {{y, means, 1}});
      check_everywhere(
          [&](const Table& on) { on.adaptive_avg_pool2d_backward(dx.view(), g.view()); },
          {{dx, numbers(exact), 4, 7}});
    }
}
