// Bias and GELU, their gradients, and column sums, against plain loops.
#include "tests/kernels/everywhere.h"

using namespace booster;
using namespace booster::kernels::test;
using kernels::Table;
using kernels::View;

namespace {

const std::vector<int64_t> shapes[] = {{0, 4},       {1, 1},     {4, 3},   {70, 17},
                                       {2, 40, 197}, {130, 768}, {3, 1000}};

double gelu(double x, bool tanh_form) {
  const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return tanh_form ? 0.5 * x * (1 + std::tanh(u)) : 0.5 * x * (1 + std::erf(x / std::sqrt(2)));
}
double gelu_slope(double x, bool tanh_form) {
  const double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  const double inner = std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
  if (tanh_form) return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * inner;
  return 0.5 * (1 + std::erf(x / std::sqrt(2))) + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
}

// Returns random values that reach into both tails.
Plain spread(DType dtype, const std::vector<int64_t>& shape, uint32_t seed) {
  Plain x = random(dtype, shape, seed);
  for_each_index(shape, [&](const Index& i) { x.set(i, 9 * x.at(i) * std::abs(x.at(i))); });
  return x;
}

Numbers column_sums(const Numbers& x, int64_t columns) {
  Numbers sums(columns);
  for (size_t i = 0; i < x.size(); ++i) sums[i % columns] += x[i];
  return sums;
}

}  // namespace

TEST_CASE("bias_gelu equals a loop in double, in both forms, with and without bias") {
  for (const DType dtype : floating_dtypes)
    for (const auto& shape : shapes)
      for (const bool tanh_form : {false, true})
        for (const bool biased : {false, true}) {
          CAPTURE(name_of(dtype));
          const int64_t n = shape.back();
          const Plain x = spread(dtype, shape, 1), y = zeros(dtype, shape),
                      bias = random(dtype, {n}, 2);
          Numbers want = numbers(x);
          for (size_t i = 0; i < want.size(); ++i)
            want[i] = gelu(want[i] + (biased ? bias.at({int64_t(i) % n}) : 0), tanh_form);
          check_everywhere(
              [&](const Table& on) {
                on.bias_gelu(y.view(), x.view(), biased ? bias.view() : View{}, tanh_form);
              },
              {{y, want, 1}});
        }
}

TEST_CASE("gelu of nan is nan, of large numbers the number or 0") {
  const Plain x = from_numbers(DType::f32, {1, 5}, {NAN, INFINITY, 1e30, -1e30, -100});
  const Plain y = zeros(DType::f32, {1, 5});
  for (const bool tanh_form : {false, true})
    check_everywhere([&](const Table& on) { on.bias_gelu(y.view(), x.view(), {}, tanh_form); },
                     {{y, {NAN, INFINITY, double(1e30f), 0, 0}, 0}});
}

TEST_CASE("bias_gelu_backward equals a loop in double; dbias sums the columns before rounding") {
  for (const DType dtype : floating_dtypes)
    for (const auto& shape : shapes)
      for (const bool tanh_form : {false, true}) {
        CAPTURE(name_of(dtype));
        const int64_t n = shape.back();
        const Plain x = spread(dtype, shape, 1), g = random(dtype, shape, 3),
                    bias = random(dtype, {n}, 2);
        const Plain dx = zeros(dtype, shape), dbias = zeros(wide(dtype), {n});
        Numbers want = numbers(g);
        const Numbers at = numbers(x);
        for (size_t i = 0; i < want.size(); ++i)
          want[i] *= gelu_slope(at[i] + bias.at({int64_t(i) % n}), tanh_form);
        check_everywhere(
            [&](const Table& on) {
              on.bias_gelu_backward(dx.view(), dbias.view(), g.view(), x.view(), bias.view(),
                                    tanh_form);
            },
            {{dx, want, 1}, {dbias, column_sums(want, n), 40}});
      }
}

TEST_CASE("column_sums equals a loop in double") {
  for (const DType dtype : floating_dtypes)
    for (const auto& shape : shapes) {
      CAPTURE(name_of(dtype));
      const Plain x = random(dtype, shape, 1), out = zeros(wide(dtype), {shape.back()});
      check_everywhere([&](const Table& on) { on.column_sums(out.view(), x.view()); },
                       {{out, column_sums(numbers(x), shape.back()), 40}});
    }
}
