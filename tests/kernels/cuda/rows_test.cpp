// Softmax, layer norm, GELU and column sums on a GPU.
#include "tests/kernels/cuda/row_cases.h"

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

namespace {

void compare_softmax(const RowCase& one, const Plain& x, bool logarithm,
                     std::optional<DType> computed = {}) {
  compare(
      one.result(one.other), {x},
      [&](const Table& table, const View& out, const Views& in) {
        table.softmax(one.matrix(out), one.matrix(in[0]), logarithm);
      },
      computed);
}

// The sums over g have one term of size 1 per column.
void compare_softmax_backward(const RowCase& one, bool logarithm) {
  compare(
      one.result(one.other), {one.drawn(one.other, 1), one.drawn(one.dtype, 2)},
      [&](const Table& table, const View& out, const Views& in) {
        table.softmax_backward(one.matrix(out), one.matrix(in[0]), one.matrix(in[1]), logarithm);
      },
      {}, 1 + std::sqrt(double(one.columns)));
}

void compare_layer_norm(const RowCase& one) {
  const auto optional = [&](const View& view) { return one.absent ? View{} : view; };
  compare_all({one.result(one.other), one.per_row(), one.per_row()},
              {one.drawn(one.dtype, 1), one.parameter(2), one.parameter(3)},
              [&](const Table& table, const Views& out, const Views& in) {
                table.layer_norm(one.matrix(out[0]), out[1], out[2], one.matrix(in[0]),
                                 optional(in[1]), optional(in[2]), 1e-3);
              });
}

void compare_residual_layer_norm(const RowCase& one) {
  compare_all(
      {one.result(one.dtype), one.result(one.other), one.per_row(), one.per_row()},
      {one.drawn(one.dtype, 1), one.drawn(one.other, 2), one.parameter(3), one.parameter(4)},
      [&](const Table& table, const Views& out, const Views& in) {
        table.residual_layer_norm(one.matrix(out[0]), one.matrix(out[1]), out[2], out[3],
                                  one.matrix(in[0]), one.matrix(in[1]), in[2],
                                  one.absent ? View{} : in[3], 1e-3);
      });
}

void compare_layer_norm_backward(const RowCase& one) {
  const auto optional = [&](const View& view) { return one.absent ? View{} : view; };
  const Plain sums = unwritten(wide(one.dtype), {one.columns});
  const Plain per_row = random(wide(one.dtype), {one.rows}, one.seed);
  compare_all(
      {one.result(one.other), sums, sums},
      {one.drawn(one.other, 1), one.drawn(one.dtype, 2), one.drawn(one.dtype, 3), per_row, per_row,
       one.parameter(4)},
      [&](const Table& table, const Views& out, const Views& in) {
        table.layer_norm_backward(one.matrix(out[0]), optional(out[1]), out[2], one.matrix(in[0]),
                                  optional(one.matrix(in[1])), one.matrix(in[2]), in[3], in[4],
                                  one.seed % 2 ? in[5] : View{});
      },
      {}, 1 + one.rows / 4.0);
}

void compare_rms_norm(const RowCase& one) {
  const auto optional = [&](const View& view) { return one.absent ? View{} : view; };
  compare_all({one.result(one.other), one.per_row()}, {one.drawn(one.dtype, 1), one.parameter(2)},
              [&](const Table& table, const Views& out, const Views& in) {
                table.rms_norm(one.matrix(out[0]), out[1], one.matrix(in[0]), optional(in[1]),
                               1e-3);
              });
  const Plain per_row = random(wide(one.dtype), {one.rows}, one.seed);
  compare_all(
      {one.result(one.other), unwritten(wide(one.dtype), {one.columns})},
      {one.drawn(one.other, 1), one.drawn(one.dtype, 2), per_row, one.parameter(3)},
      [&](const Table& table, const Views& out, const Views& in) {
        table.rms_norm_backward(one.matrix(out[0]), one.seed % 3 ? out[1] : View{},
                                one.matrix(in[0]), one.matrix(in[1]), in[2], optional(in[3]));
      },
      {}, 1 + one.rows / 4.0);
}

void compare_gelu(const RowCase& one, bool tanh_form) {
  const auto optional = [&](const View& view) { return one.absent ? View{} : view; };
  compare(one.result(one.other), {one.drawn(one.dtype, 1), one.parameter(2)},
          [&](const Table& table, const View& out, const Views& in) {
            table.bias_gelu(one.matrix(out), one.matrix(in[0]), optional(in[1]), tanh_form);
          });
  compare_all(
      {one.result(one.dtype), unwritten(wide(one.dtype), {one.columns})},
      {one.drawn(one.other, 1), one.drawn(one.dtype, 2), one.parameter(3)},
      [&](const Table& table, const Views& out, const Views& in) {
        table.bias_gelu_backward(one.matrix(out[0]), one.seed % 3 ? out[1] : View{},
                                 one.matrix(in[0]), one.matrix(in[1]), optional(in[2]), tanh_form);
      },
      {}, 1);
}

void compare_column_sums(const RowCase& one) {
  compare(
      unwritten(wide(one.dtype), {one.columns}), {one.drawn(one.dtype, 1)},
      [&](const Table& table, const View& out, const Views& in) {
        table.column_sums(out, one.matrix(in[0]));
      },
      {}, 1 + std::sqrt(double(one.rows)));
}

void for_each_size(const std::function<void(const RowCase&)>& body) {
  for_each_row_case(row_sizes, body);
  for_each_row_case(long_rows, body);
}

}  // namespace

TEST_CASE("GPU: softmax and its gradient agree with the CPU" * on_gpu()) {
  for_each_size([](const RowCase& one) {
    for (const bool logarithm : {false, true}) {
      compare_softmax(one, one.drawn(one.dtype, 1), logarithm);
      compare_softmax_backward(one, logarithm);
    }
  });
}

TEST_CASE("GPU: softmax of f32 may be stored as f64" * on_gpu()) {
  const RowCase one = {3, 37, 0, DType::f32, DType::f64, DType::f32, false, 1};
  for (const bool logarithm : {false, true})
    compare_softmax(one, one.drawn(one.dtype, 1), logarithm, DType::f32);
}

// Each special value alone in a row, in one of its chunks, and everywhere in a row.
TEST_CASE("GPU: softmax of rows with nan and infinities is as on the CPU" * on_gpu()) {
  for_each_row_case({1, 5, 33, 1030, 9000, 18'000}, [](RowCase one) {
    if (is_16_bit(one.dtype)) one.other = one.dtype;
    one.rows = 8;
    Plain x = one.drawn(one.dtype, 1);
    const double special[] = {-INFINITY, INFINITY, NAN, -INFINITY};
    for (int64_t row = 0; row < one.rows; ++row)
      for (int64_t i = 0; i < one.columns; ++i)
        if (row >= 4 || i == one.columns / 2 || (row == 3 && i < one.columns - 1))
          x.set({one.offset + row * one.columns + i}, special[row % 4]);
    // A whole chunk of nan before finite numbers.
    for (int64_t i = 0; i + 1 < one.columns; ++i) x.set({one.offset + 7 * one.columns + i}, NAN);
    x.set({one.offset + 8 * one.columns - 1}, 1);
    for (const bool logarithm : {false, true}) compare_softmax(one, x, logarithm);
  });
}

TEST_CASE("GPU: layer norm, also of a residual sum, agrees with the CPU" * on_gpu()) {
  for_each_size([](const RowCase& one) {
    compare_layer_norm(one);
    compare_residual_layer_norm(one);
  });
}

TEST_CASE("GPU: the gradients of layer norm agree with the CPU" * on_gpu()) {
  for_each_size(compare_layer_norm_backward);
}

TEST_CASE("GPU: rms norm and its gradients agree with the CPU" * on_gpu()) {
  for_each_size(compare_rms_norm);
}

TEST_CASE("GPU: the rotation of pairs agrees with the CPU" * on_gpu()) {
  const std::vector<int64_t> shape = {2, 3, 50, 14}, by_token = {50 * 3 * 14, 14, 3 * 14, 1};
  for (const DType dtype : floating_dtypes)
    for (const bool back : {false, true}) {
      CAPTURE(std::string(name_of(dtype)));
      compare(unwritten(dtype, shape),
              {random(dtype, shape, by_token, 1), random(DType::f32, {2, 50, 7}, {0, 7, 1}, 2),
               random(DType::f32, {2, 50, 7}, 3)},
              [&](const Table& table, const View& out, const Views& in) {
                table.rotary(out, in[0], in[1], in[2], back);
              });
    }
}

TEST_CASE("GPU: GELU of a biased row and its gradients agree with the CPU" * on_gpu()) {
  for_each_size([](const RowCase& one) {
    for (const bool tanh_form : {false, true}) compare_gelu(one, tanh_form);
  });
}

TEST_CASE("GPU: column sums agree with the CPU" * on_gpu()) { for_each_size(compare_column_sums); }

TEST_CASE("GPU: sums over rows that several blocks share agree with the CPU" * on_gpu()) {
  for_each_row_case({3, 40, 264}, [](RowCase one) {
    one.rows = 64 + one.seed % 300;
    compare_column_sums(one);
    compare_layer_norm_backward(one);
  });
}

TEST_CASE("GPU: sums over rows are the same bits each time" * on_gpu()) {
  const RowCase one = {333, 70, 1, DType::bf16, DType::f32, DType::f32, false, 1};
  const GpuCopy x(one.drawn(one.dtype, 1));
  std::vector<Plain> got;
  for (int i = 0; i < 2; ++i) {
    const Plain sums = unwritten(DType::f32, {one.columns});
    const GpuCopy out(sums);
    on(gpu).column_sums(out.view_like(sums), one.matrix(x.view_like(one.drawn(one.dtype, 1))));
    got.push_back(out.fetch(sums));
  }
  CHECK(*got[0].bytes == *got[1].bytes);
}
