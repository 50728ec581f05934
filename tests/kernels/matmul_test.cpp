// matmul and linear against a plain double loop: every dtype, layout, size class and option.
#include "kernels/catalogue.h"
#include "kernels/cpu/library.h"
#include "platform/threads.h"
#include "tests/draws.h"
#include "tests/kernels/plain_tensor.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <array>
#include <limits>
#include <random>
#include <string>

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

enum class Layout { row_major, column_major, wide_rows, spread };

// Returns a (batch, rows, columns) tensor with this layout, filled with small random values.
Plain matrix(DType dtype, Layout layout, int64_t batch, int64_t rows, int64_t columns,
             uint32_t seed) {
  const int64_t r = std::max<int64_t>(rows, 1), c = std::max<int64_t>(columns, 1);
  switch (layout) {
    case Layout::row_major: return random(dtype, {batch, rows, columns}, {r * c, c, 1}, seed);
    case Layout::column_major: return random(dtype, {batch, rows, columns}, {r * c, 1, r}, seed);
    case Layout::wide_rows:
      return random(dtype, {batch, rows, columns}, {r * (c + 3), c + 3, 1}, seed);
    case Layout::spread: return random(dtype, {batch, rows, columns}, {r * c * 6, c * 6, 2}, seed);
  }
  return {};
}

// Returns the tensor without the batch dimension.
View flat(const Plain& tensor) {
  View view = tensor.view();
  view.ndim = 2;
  for (int i = 0; i < 2; ++i) {
    view.shape[i] = view.shape[i + 1];
    view.strides[i] = view.strides[i + 1];
  }
  return view;
}

struct Sum {
  double value, magnitude;  // magnitude: bound of the terms, for rounding errors
};

Sum product_at(const Plain& a, const Plain& b, int64_t batch, int64_t row, int64_t column) {
  Sum sum = {};
  for (int64_t k = 0; k < a.shape[2]; ++k) {
    const double term = a.at({batch, row, k}) * b.at({batch, k, column});
    sum.value += term;
    sum.magnitude += std::abs(term);
  }
  return sum;
}

void check_matmul(DType dtype, DType out_dtype, Layout out_layout, Layout a_layout, Layout b_layout,
                  int64_t batch, int64_t m, int64_t n, int64_t k, double beta = 0) {
  const std::string work = fmt::format("{} -> {}, layouts {} {} {}, {} x ({} {} {}), beta {}",
                                       name_of(dtype), name_of(out_dtype), int(out_layout),
                                       int(a_layout), int(b_layout), batch, m, n, k, beta);
  CAPTURE(work);
  const Plain a = matrix(dtype, a_layout, batch, m, k, 1),
              b = matrix(dtype, b_layout, batch, k, n, 2);
  const Plain out = matrix(out_dtype, out_layout, batch, m, n, 3);
  const Plain before = out;
  if (beta == 0) out.fill_bytes(0xFF);  // NaN or -1: beta 0 must not read it
  if (batch == 1)
    on({}).matmul(flat(out), flat(a), flat(b), beta);
  else
    on({}).matmul(out.view(), a.view(), b.view(), beta);
  double worst = 0;
  for_each_index({batch, m, n}, [&](const Index& i) {
    const Sum sum = product_at(a, b, i[0], i[1], i[2]);
    const double old = beta == 0 ? 0 : beta * before.at(i);
    const double allowed = tolerance(out_dtype, sum.value + old, sum.magnitude + std::abs(old));
    const double error = std::abs(out.at(i) - (sum.value + old));
    worst = std::max(worst, error <= allowed ? 0 : error / allowed + 1e-30);
    if (!(error <= allowed)) worst = 1e30;
  });
  CHECK(worst == 0);
}

const DType all_dtypes[] = {DType::f32,  DType::f64, DType::f16,
                            DType::bf16, DType::i32, DType::i64};
const DType floating[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
const Layout layouts[] = {Layout::row_major, Layout::column_major, Layout::wide_rows,
                          Layout::spread};

}  // namespace

TEST_CASE("matmul equals the double loop in every dtype and size") {
  const int64_t sizes[][3] = {{1, 1, 1},    {8, 8, 8},     {3, 5, 7},     {1, 70, 90},
                              {70, 1, 90},  {70, 90, 1},   {33, 65, 129}, {1, 1, 5000},
                              {1, 5000, 1}, {130, 70, 300}};
  for (const DType dtype : all_dtypes)
    for (const auto& [m, n, k] : sizes)
      check_matmul(dtype, dtype, Layout::row_major, Layout::row_major, Layout::row_major, 1, m, n,
                   k);
}

TEST_CASE("matmul takes every layout of its three matrices") {
  for (const DType dtype : all_dtypes)
    for (const Layout out : layouts)
      for (const Layout a : layouts)
        for (const Layout b : layouts) {
          check_matmul(dtype, dtype, out, a, b, 1, 19, 37, 23);
          check_matmul(dtype, dtype, out, a, b, 3, 19, 37, 23);
          check_matmul(dtype, dtype, out, a, b, 2, 5, 1, 3);
        }
}

TEST_CASE("matmul of drawn sizes and layouts equals the double loop") {
  for (const unsigned seed : testing::draws(330)) {
    std::mt19937 random(seed);
    const auto drawn = [&](int64_t most) { return 1 + int64_t(random() % uint64_t(most)); };
    // vectors too, and sums that are long beside them
    const auto side = [&](int64_t most) { return random() % 3 ? drawn(most) : drawn(2); };
    const auto layout = [&] { return layouts[random() % std::size(layouts)]; };
    const DType dtype = all_dtypes[random() % std::size(all_dtypes)];
    const double beta = is_floating(dtype) && random() % 4 == 0 ? 0.5 : 0;
    check_matmul(dtype, dtype, layout(), layout(), layout(), drawn(3), side(90), side(90),
                 side(random() % 4 ? 70 : 3000), beta);
  }
}

TEST_CASE("matmul adds beta times the output before it rounds") {
  for (const DType dtype : floating)
    for (const Layout out : layouts)
      for (const double beta : {1.0, 0.5, -2.0}) {
        check_matmul(dtype, dtype, out, Layout::row_major, Layout::column_major, 1, 40, 30, 50,
                     beta);
        check_matmul(dtype, dtype, out, Layout::row_major, Layout::row_major, 1, 4, 3, 5, beta);
        check_matmul(dtype, dtype, out, Layout::column_major, Layout::row_major, 2, 20, 30, 50,
                     beta);
      }
}

TEST_CASE("matmul of 16-bit matrices writes an f32 result unrounded") {
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const Layout out : layouts)
      for (const double beta : {0.0, 1.0}) {
        check_matmul(dtype, DType::f32, out, Layout::column_major, Layout::row_major, 1, 60, 50, 70,
                     beta);
        check_matmul(dtype, DType::f32, out, Layout::row_major, Layout::row_major, 1, 6, 5, 7,
                     beta);
      }
}

TEST_CASE("the gradients of a linear layer's weight and bias equal the double loop") {
  for (const DType dtype : floating)
    for (const auto& [rows, outputs, inputs] : {std::array<int64_t, 3>{1, 1, 1}, {3, 5, 7},
                                                {70, 33, 41}, {0, 2, 3}})
      for (const DType dweight_dtype : {dtype, dtype == DType::f64 ? dtype : DType::f32})
        for (const double beta : {0.0, 1.0}) {
          CAPTURE(std::string(name_of(dtype)));
          CAPTURE(rows);
          const Plain g = random(dtype, {rows, outputs}, 1), x = random(dtype, {rows, inputs}, 2);
          const Plain dweight = random(dweight_dtype, {outputs, inputs}, 3);
          const Plain dbias = random(dtype, {outputs}, 4), before = dweight;
          if (beta == 0) dweight.fill_bytes(0xFF);
          on({}).linear_backward_weight(dweight.view(), dbias.view(), g.view(), x.view(), beta);
          for_each_index({outputs, inputs}, [&](const Index& i) {
            double sum = beta == 0 ? 0 : before.at(i), magnitude = std::abs(sum);
            for (int64_t row = 0; row < rows; ++row) {
              const double term = g.at({row, i[0]}) * x.at({row, i[1]});
              sum += term, magnitude += std::abs(term);
            }
            CHECK(std::abs(dweight.at(i) - sum) <= tolerance(dweight_dtype, sum, magnitude));
          });
          for_each_index({outputs}, [&](const Index& i) {
            double sum = 0, magnitude = 0;
            for (int64_t row = 0; row < rows; ++row) {
              sum += g.at({row, i[0]}), magnitude += std::abs(g.at({row, i[0]}));
            }
            CHECK(std::abs(dbias.at(i) - sum) <= tolerance(dtype, sum, magnitude));
          });
        }
}

TEST_CASE("matmul with k = 0 gives beta times the output") {
  for (const DType dtype : floating)
    for (const double beta : {0.0, 0.5})
      check_matmul(dtype, dtype, Layout::row_major, Layout::row_major, Layout::row_major, 1, 40, 30,
                   0, beta);
}

TEST_CASE("matmul of an empty output does nothing") {
  for (const DType dtype : floating) {
    check_matmul(dtype, dtype, Layout::row_major, Layout::row_major, Layout::row_major, 1, 0, 30,
                 5);
    check_matmul(dtype, dtype, Layout::row_major, Layout::row_major, Layout::row_major, 0, 3, 30,
                 5);
  }
}

TEST_CASE("matmul repeats a batch of stride 0") {
  for (const DType dtype : floating)
    for (const int which : {0, 1, 2}) {
      const std::string work = fmt::format("{} {}", name_of(dtype), which);
      CAPTURE(work);
      Plain a = matrix(dtype, Layout::row_major, 3, 20, 30, 1);
      Plain b = matrix(dtype, Layout::row_major, 3, 30, 25, 2);
      if (which != 1) a.strides[0] = 0;
      if (which != 0) b.strides[0] = 0;
      const Plain out = matrix(dtype, Layout::row_major, 3, 20, 25, 3);
      on({}).matmul(out.view(), a.view(), b.view(), 0);
      for_each_index({3, 20, 25}, [&](const Index& i) {
        const Sum sum = product_at(a, b, i[0], i[1], i[2]);
        REQUIRE(std::abs(out.at(i) - sum.value) <= tolerance(dtype, sum.value, sum.magnitude));
      });
    }
}

TEST_CASE("linear is x w^T + bias with one rounding") {
  for (const DType dtype : floating)
    for (const DType bias_dtype : {dtype, dtype == DType::f64 ? DType::f64 : DType::f32})
      for (const auto& [rows, in, outputs] :
           {std::array{1, 7, 5}, {50, 64, 40}, {1, 100, 90}, {90, 100, 1}, {30, 0, 20}}) {
        const std::string work =
            fmt::format("{} {} {} {} {}", name_of(dtype), name_of(bias_dtype), rows, in, outputs);
        CAPTURE(work);
        const Plain x = matrix(dtype, Layout::row_major, 1, rows, in, 1);
        const Plain w = matrix(dtype, Layout::row_major, 1, outputs, in, 2);
        const Plain bias = random(bias_dtype, {outputs}, {1}, 3);
        const Plain y = matrix(dtype, Layout::row_major, 1, rows, outputs, 4);
        for (const bool with_bias : {false, true}) {
          y.fill_bytes(0xFF);
          on({}).linear(flat(y), flat(x), flat(w), with_bias ? bias.view() : View{});
          for_each_index({1, rows, outputs}, [&, in = in](const Index& i) {
            double value = with_bias ? bias.at({i[2]}) : 0, magnitude = std::abs(value);
            for (int64_t k = 0; k < in; ++k) {
              const double term = x.at({0, i[1], k}) * w.at({0, i[2], k});
              value += term, magnitude += std::abs(term);
            }
            REQUIRE(std::abs(y.at(i) - value) <= tolerance(dtype, value, magnitude));
          });
        }
      }
}

TEST_CASE("matmul gives the same bits with one thread and with two") {
  const std::string isa = cpu::library_isa();  // below AVX-512 oneDNN splits long sums
  if (!isa.starts_with("AVX512") && !isa.starts_with("AVX10")) return;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const auto& [m, n, k] :
         {std::array{200, 192, 768}, {197, 64, 3000}, {1, 1000, 768}, {512, 1, 999}}) {
      const std::string work = fmt::format("{} {} {} {}", name_of(dtype), m, n, k);
      CAPTURE(work);
      const Plain a = matrix(dtype, Layout::row_major, 1, m, k, 1);
      const Plain b = matrix(dtype, Layout::column_major, 1, k, n, 2);
      const Plain one = matrix(dtype, Layout::row_major, 1, m, n, 3), two = one;
      const int before = thread_count();
      set_thread_count(1);
      on({}).matmul(flat(one), flat(a), flat(b), 0);
      set_thread_count(2);
      on({}).matmul(flat(two), flat(a), flat(b), 0);
      set_thread_count(before);
      CHECK(*one.bytes == *two.bytes);
    }
}

TEST_CASE("matmul passes NaN and infinity on") {
  for (const DType dtype : floating)
    for (const int64_t size : {4, 40}) {
      const std::string work = fmt::format("{} {}", name_of(dtype), size);
      CAPTURE(work);
      const Plain a = matrix(dtype, Layout::row_major, 1, size, size, 1);
      const Plain b = matrix(dtype, Layout::row_major, 1, size, size, 2);
      const Plain out = matrix(dtype, Layout::row_major, 1, size, size, 3);
      a.set({0, 1, 2}, std::numeric_limits<double>::quiet_NaN());
      a.set({0, 2, 3}, std::numeric_limits<double>::infinity());
      on({}).matmul(flat(out), flat(a), flat(b), 0);
      for (int64_t j = 0; j < size; ++j) {
        CHECK(std::isfinite(out.at({0, 0, j})));
        CHECK(std::isnan(out.at({0, 1, j})));
        CHECK(!std::isfinite(out.at({0, 2, j})));
      }
    }
}
