// RMS norm and its gradients, and the rotation of pairs, against plain loops.
#include "tests/kernels/everywhere.h"

using namespace booster;
using namespace booster::kernels::test;
using kernels::Table;
using kernels::View;

namespace {

constexpr double eps = 1e-5;
const std::vector<int64_t> shapes[] = {{0, 4},      {3, 1},     {4, 3},   {70, 17},
                                       {2, 5, 197}, {130, 768}, {3, 1000}};

int64_t row_count(const Numbers& x, int64_t n) { return static_cast<int64_t>(x.size()) / n; }

Numbers reciprocal_roots(const Numbers& x, int64_t n) {
  Numbers out;
  for (size_t row = 0; row < x.size(); row += n) {
    double squares = 0;
    for (int64_t i = 0; i < n; ++i) squares += x[row + i] * x[row + i] / double(n);
    out.push_back(1 / std::sqrt(squares + eps));
  }
  return out;
}

struct RmsGradients {
  Numbers dx, dgamma;
};

RmsGradients rms_gradients(const Numbers& g, const Numbers& x, const Numbers& rstd,
                           const Numbers& gamma) {
  const size_t n = gamma.size();
  RmsGradients out = {Numbers(x.size()), Numbers(n)};
  for (size_t row = 0; row < rstd.size(); ++row) {
    double average = 0;
    for (size_t i = row * n; i < row * n + n; ++i)
      average += g[i] * gamma[i % n] * x[i] / double(n);
    for (size_t i = row * n; i < row * n + n; ++i) {
      const double pull = x[i] * rstd[row] * rstd[row] * average;
      out.dx[i] = rstd[row] * (g[i] * gamma[i % n] - pull);
      out.dgamma[i % n] += g[i] * x[i] * rstd[row];
    }
  }
  return out;
}

}  // namespace

TEST_CASE("rms_norm equals a loop in double, with and without a weight") {
  for (const DType dtype : floating_dtypes)
    for (const auto& shape : shapes)
      for (const bool weighted : {true, false}) {
        CAPTURE(name_of(dtype));
        const int64_t n = shape.back();
        const Plain x = random(dtype, shape, 1), y = zeros(dtype, shape);
        const Plain gamma = random(weighted ? dtype : wide(dtype), {n}, 2);
        const Numbers factors = weighted ? numbers(gamma) : Numbers(n, 1);
        const Numbers values = numbers(x), roots = reciprocal_roots(values, n);
        const Plain rstd = zeros(wide(dtype), {row_count(values, n)});
        Numbers want(values.size());
        for (size_t i = 0; i < want.size(); ++i)
          want[i] = values[i] * roots[i / n] * factors[i % n];
        check_everywhere(
            [&](const Table& on) {
              on.rms_norm(y.view(), rstd.view(), x.view(), weighted ? gamma.view() : View{}, eps);
            },
            {{y, want}, {rstd, roots}});
      }
}

TEST_CASE("rms_norm_backward equals a loop in double") {
  for (const DType dtype : floating_dtypes)
    for (const auto& shape : shapes) {
      CAPTURE(name_of(dtype));
      const int64_t n = shape.back();
      const Plain g = random(dtype, shape, 1), x = random(dtype, shape, 2);
      const Plain gamma = random(dtype, {n}, 3), dx = zeros(dtype, shape);
      const Numbers roots = reciprocal_roots(numbers(x), n);
      const Plain rstd = from_numbers(wide(dtype), {row_count(numbers(x), n)}, roots);
      const Plain dgamma = zeros(wide(dtype), {n});
      const auto want = rms_gradients(numbers(g), numbers(x), numbers(rstd), numbers(gamma));
      check_everywhere(
          [&](const Table& on) {
            on.rms_norm_backward(dx.view(), dgamma.view(), g.view(), x.view(), rstd.view(),
                                 gamma.view());
          },
          {{dx, want.dx, 4}, {dgamma, want.dgamma, 2.0 * double(roots.size()) + 1}});
    }
}

TEST_CASE("rotary turns pairs of any strides, forth and back, for one table or one per text") {
  const std::vector<int64_t> shape = {2, 3, 5, 14}, by_token = {5 * 3 * 14, 14, 3 * 14, 1};
  for (const DType dtype : floating_dtypes)
    for (const bool back : {false, true})
      for (const bool each_text : {false, true}) {
        CAPTURE(name_of(dtype));
        const Plain x = random(dtype, shape, by_token, 1), y = zeros(dtype, shape);
        const std::vector<int64_t> table = {2, 5, 7}, strides = {each_text ? 35 : 0, 7, 1};
        const Plain cosines = random(DType::f32, table, strides, 2);
        const Plain sines = random(DType::f32, table, strides, 3);
        Numbers want;
        for_each_index(shape, [&](const Index& at) {
          const bool second = at[3] >= 7;
          const Index angle = {at[0], at[2], at[3] % 7};
          Index other = at;
          other[3] += second ? -7 : 7;
          const double sine = (back ? -1 : 1) * sines.at(angle);
          want.push_back(x.at(at) * cosines.at(angle) + (second ? 1 : -1) * x.at(other) * sine);
        });
        check_everywhere(
            [&](const Table& on) {
              on.rotary(y.view(), x.view(), cosines.view(), sines.view(), back);
            },
            {{y, want}});
      }
}
