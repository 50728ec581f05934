// Layer norm, its residual form and its gradients against plain loops.
#include "tests/kernels/everywhere.h"

using namespace booster;
using namespace booster::kernels::test;
using kernels::Table;
using kernels::View;

namespace {

constexpr double eps = 1e-5;
const std::vector<int64_t> shapes[] = {{0, 4},      {3, 1},     {4, 3},   {70, 17},
                                       {2, 5, 197}, {130, 768}, {3, 1000}};

struct Statistics {
  Numbers mean, rstd;
};

Statistics statistics(const Numbers& x, int64_t n) {
  Statistics s;
  for (size_t row = 0; row < x.size(); row += n) {
    double mean = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i) mean += x[row + i] / double(n);
    for (int64_t i = 0; i < n; ++i) squares += (x[row + i] - mean) * (x[row + i] - mean);
    s.mean.push_back(mean);
    s.rstd.push_back(1 / std::sqrt(squares / double(n) + eps));
  }
  return s;
}

Numbers normalized(const Numbers& x, const Statistics& s, const Numbers& gamma,
                   const Numbers& beta) {
  Numbers y(x.size());
  const size_t n = gamma.size();
  for (size_t i = 0; i < x.size(); ++i)
    y[i] = (x[i] - s.mean[i / n]) * s.rstd[i / n] * gamma[i % n] + beta[i % n];
  return y;
}

struct Gradients {
  Numbers dx, dgamma, dbeta;
};

Gradients gradients(const Numbers& g, const Numbers& x, const Statistics& s, const Numbers& gamma) {
  const size_t n = gamma.size();
  Gradients out = {Numbers(x.size()), Numbers(n), Numbers(n)};
  for (size_t row = 0; row < x.size() / n; ++row) {
    double sum = 0, product = 0;
    const auto h = [&](size_t i) { return (x[row * n + i] - s.mean[row]) * s.rstd[row]; };
    for (size_t i = 0; i < n; ++i) {
      const double slope = g[row * n + i];
      sum += slope * gamma[i] / double(n);
      product += slope * gamma[i] * h(i) / double(n);
      out.dgamma[i] += slope * h(i);
      out.dbeta[i] += slope;
    }
    for (size_t i = 0; i < n; ++i)
      out.dx[row * n + i] = s.rstd[row] * (g[row * n + i] * gamma[i] - sum - h(i) * product);
  }
  return out;
}

int64_t rows_of(const std::vector<int64_t>& shape) {
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

}  // namespace

TEST_CASE("layer_norm equals a loop in double, with and without parameters") {
  for (const DType dtype : floating_dtypes)
    for (const auto& shape : shapes)
      for (const bool affine : {true, false}) {
        CAPTURE(name_of(dtype));
        const int64_t n = shape.back(), rows = rows_of(shape);
        const Plain x = random(dtype, shape, 1), y = zeros(dtype, shape);
        const Plain mean = zeros(wide(dtype), {rows}), rstd = zeros(wide(dtype), {rows});
        const Plain gamma = random(dtype, {n}, 2), beta = random(wide(dtype), {n}, 3);
        const Statistics s = statistics(numbers(x), n);
        const Numbers want = affine ? normalized(numbers(x), s, numbers(gamma), numbers(beta))
                                    : normalized(numbers(x), s, Numbers(n, 1), Numbers(n, 0));
        check_everywhere(
            [&](const Table& on) {
              on.layer_norm(y.view(), mean.view(), rstd.view(), x.view(),
                            affine ? gamma.view() : View{}, affine ? beta.view() : View{}, eps);
            },
            {{y, want}, {mean, s.mean}, {rstd, s.rstd}});
      }
}

TEST_CASE("layer_norm keeps its precision far from zero") {
  const std::vector<int64_t> shape = {3, 768};
  Plain x = random(DType::f32, shape, 4);
  for_each_index(shape, [&](const Index& i) { x.set(i, 1000 + std::round(x.at(i) * 64) / 64); });
  const Plain y = zeros(DType::f32, shape), mean = zeros(DType::f32, {3}),
              rstd = zeros(DType::f32, {3});
  const Statistics s = statistics(numbers(x), 768);
  check_everywhere(
      [&](const Table& on) {
        on.layer_norm(y.view(), mean.view(), rstd.view(), x.view(), {}, {}, eps);
      },
      {{y, normalized(numbers(x), s, Numbers(768, 1), Numbers(768, 0)), 200},
       {mean, s.mean, 1000}});
}

TEST_CASE("residual_layer_norm adds a branch of another dtype and normalises the rounded sum") {
  const DType pairs[][2] = {{DType::f32, DType::bf16},
                            {DType::f32, DType::f16},
                            {DType::f32, DType::f32},
                            {DType::bf16, DType::bf16},
                            {DType::f64, DType::f32}};
  for (const auto& pair : pairs)
    for (const auto& shape : shapes) {
      const DType dtype = pair[0], branch_dtype = pair[1];
      CAPTURE(name_of(branch_dtype));
      const int64_t n = shape.back(), rows = rows_of(shape);
      const Plain x = random(dtype, shape, 1), branch = random(branch_dtype, shape, 2);
      const Plain sum = zeros(dtype, shape), y = zeros(branch_dtype, shape);
      const Plain mean = zeros(wide(dtype), {rows}), rstd = zeros(wide(dtype), {rows});
      const Plain gamma = random(wide(dtype), {n}, 3), beta = random(wide(dtype), {n}, 4);
      Numbers added = numbers(x);
      const Numbers other = numbers(branch);
      for (size_t i = 0; i < added.size(); ++i) added[i] += other[i];
      const Plain rounded = from_numbers(dtype, shape, added);
      const Statistics s = statistics(numbers(rounded), n);
      check_everywhere(
          [&](const Table& on) {
            on.residual_layer_norm(sum.view(), y.view(), mean.view(), rstd.view(), x.view(),
                                   branch.view(), gamma.view(), beta.view(), eps);
          },
          {{sum, numbers(rounded), 0},
           {y, normalized(numbers(rounded), s, numbers(gamma), numbers(beta))},
           {mean, s.mean},
           {rstd, s.rstd}});
    }
}

TEST_CASE("layer_norm_backward equals a loop in double and adds what is carried beside it") {
  for (const DType dtype : floating_dtypes)
    for (const auto& shape : shapes)
      for (const bool carries : {true, false}) {
        CAPTURE(name_of(dtype));
        const int64_t n = shape.back(), rows = rows_of(shape);
        const Plain g = random(dtype, shape, 1), x = random(dtype, shape, 2),
                    dx = zeros(dtype, shape);
        const Plain gamma = random(wide(dtype), {n}, 3), carried = random(wide(dtype), shape, 4);
        const Plain dgamma = zeros(wide(dtype), {n}), dbeta = zeros(wide(dtype), {n});
        const Statistics exact = statistics(numbers(x), n);
        const Plain mean = from_numbers(wide(dtype), {rows}, exact.mean);
        const Plain rstd = from_numbers(wide(dtype), {rows}, exact.rstd);
        Gradients want =
            gradients(numbers(g), numbers(x), {numbers(mean), numbers(rstd)}, numbers(gamma));
        const Numbers extra = numbers(carried);
        if (carries)
          for (size_t i = 0; i < extra.size(); ++i) want.dx[i] += extra[i];
        // In rows of one element the rounding error of x - mean is divided by sqrt(eps).
        check_everywhere(
            [&](const Table& on) {
              on.layer_norm_backward(dx.view(), dgamma.view(), dbeta.view(), g.view(),
                                     carries ? carried.view() : View{}, x.view(), mean.view(),
                                     rstd.view(), gamma.view());
            },
            {{dx, want.dx, n == 1 ? 300. : 8.},
             {dgamma, want.dgamma, 30},
             {dbeta, want.dbeta, 30}});
      }
}
