// 8-bit floats on a GPU.
#include "tests/draws.h"
#include "tests/kernels/cuda/compare.h"

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

TEST_CASE("GPU: 8-bit floats are cast and decoded as on the CPU" * on_gpu()) {
  for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2})
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      const Plain x = random(dtype, {40'001}, 1), codes = random(DType::u8, {40'001}, 2);
      for (const bool saturate : {false, true})
        compare(unwritten(DType::u8, x.shape), {x}, [&](auto& table, const View& out, auto& in) {
          table.fp8_quantize(out, in[0], {format, saturate}, nullptr, nullptr, nullptr);
        });
      compare(test::zeros(dtype, x.shape), {codes}, [&](auto& table, const View& out, auto& in) {
        table.fp8_decode(out, in[0], format);
      });
    }
}

TEST_CASE("GPU: quantizing gives the amax and the inverse scale, with a scale or without" *
          on_gpu()) {
  for (const bool scaled : {false, true})
    for (const double extreme : {3.0, double(INFINITY), double(NAN)}) {
      CAPTURE(extreme);
      Plain x = random(DType::f32, {20'001}, 1);
      x.set({17'000}, extreme);
      compare_all(
          {unwritten(DType::u8, x.shape), unwritten(DType::f32, {1}),
           from_numbers(DType::f32, {1}, {0.5})},
          {x, from_numbers(DType::f32, {1}, {64})},
          [=](const Table& table, const std::vector<View>& out, const std::vector<View>& in) {
            table.fp8_quantize(out[0], in[0], {}, scaled ? in[1].as<float>() : nullptr,
                               out[1].as<float>(), out[2].as<float>());
            table.fp8_amax(in[0], out[2].as<float>());
          });
    }
}

TEST_CASE("GPU: the result of a product of 8-bit floats agrees with the CPU" * on_gpu()) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const bool offset : {false, true})
      compare(unwritten(dtype, {33, 300}),
              {random(DType::f32, {33, 300}, 1), random(DType::f32, {300}, 2),
               from_numbers(DType::f32, {5}, {0.25, 3, 0, 0, 3})},
              [=](const Table& table, View out, const std::vector<View>& in) {
                const auto* inverse = in[2].as<const float>();
                table.fp8_result(out, in[0], offset ? in[1] : View{}, inverse, inverse + 1);
              });
}

TEST_CASE("GPU: the result of a product with a bias of 16 bits agrees with the CPU" * on_gpu()) {
  for (const DType dtype : {DType::f16, DType::bf16})
    compare(unwritten(DType::f32, {5, 300}),
            {random(DType::f32, {5, 300}, 1), random(dtype, {300}, 2),
             from_numbers(DType::f32, {5}, {0.25, 3, 0, 0, 3})},
            [=](const Table& table, View out, const std::vector<View>& in) {
              const auto* inverse = in[2].as<const float>();
              table.fp8_result(out, in[0], in[1], inverse, inverse + 1);
            });
}

namespace {

// Random codes of finite values from 2^-7 to 2, by rows or by columns, at any address.
struct DrawnCodes {
  DrawnCodes(std::mt19937& drawn, int64_t rows, int64_t columns)
      : memory(DType::u8, {rows * columns + 16}, {1}), shape{rows, columns} {
    for (char& code : *memory.bytes) code = static_cast<char>((drawn() & 0x9F) | 0x20);
    by_columns = drawn() % 2;
    offset = drawn() % 3 ? 0 : static_cast<int64_t>(drawn() % 16);
  }
  View in(View view) const {
    view.data = view.as<char>() + offset;
    view.ndim = 2;
    for (int i = 0; i < 2; ++i) view.shape[i] = shape[i];
    view.strides[0] = by_columns ? 1 : shape[1];
    view.strides[1] = by_columns ? shape[0] : 1;
    return view;
  }
  Plain memory;
  int64_t shape[2], offset;
  bool by_columns;
};

// The values are exact and sums are of one order of magnitude, so only one rounding remains.
// Hopper's matrix units keep some 14 bits of a sum until they promote it, which is rare at these
// sizes. There a sum may be off by 1e-2.
double magnitude_of_sums(DType dtype) {
  if (gpus_are_played()) return dtype == DType::f32 ? 10 : 0.01;
  return dtype == DType::f32 ? 2500 : dtype == DType::f16 ? 10 : 1.3;
}

}  // namespace

TEST_CASE("GPU: drawn products of 8-bit floats agree with the CPU, in every layout" * on_gpu()) {
  const DType dtypes[] = {DType::f32, DType::f16, DType::bf16};
  for (const unsigned i : booster::testing::draws(150)) {
    std::mt19937 drawn(i);
    const auto draw = [&](int64_t below) { return static_cast<int64_t>(drawn() % below); };
    const int64_t step = draw(2) ? 16 : 1;
    const int64_t m = step * (1 + draw(40 / step)), n = step * (1 + draw(40 / step));
    const int64_t k = step * (1 + draw(160 / step));
    const DrawnCodes a(drawn, m, k), b(drawn, k, n);
    const DType dtype = dtypes[draw(3)], bias_dtype = draw(2) ? dtype : dtypes[draw(3)];
    const Fp8Format formats[] = {Fp8Format::e4m3, Fp8Format::e5m2};
    const Fp8Format format_a = formats[draw(2)], format_b = formats[draw(2)];
    const bool has_bias = draw(2);
    const int64_t second = draw(4) ? 4 : 1;  // the second scale is at an aligned address, or not
    CAPTURE(i);
    CAPTURE(m);
    CAPTURE(n);
    CAPTURE(k);
    compare(
        unwritten(dtype, {m, n}),
        {a.memory, b.memory, random(bias_dtype, {n}, 3),
         from_numbers(DType::f32, {5}, {0.25, 3, 0, 0, 3})},
        [=](const Table& table, View y, const std::vector<View>& in) {
          const auto* inverse = in[3].as<const float>();
          table.fp8_matmul(y, a.in(in[0]), format_a, b.in(in[1]), format_b,
                           has_bias ? in[2] : View{}, inverse, inverse + second);
        },
        {}, magnitude_of_sums(dtype));
  }
}

TEST_CASE("GPU: scales follow the amaxes as on the CPU" * on_gpu()) {
  const Numbers amaxes = {0.5, -1, 0, INFINITY, 300};
  for (const bool most_recent : {false, true})
    compare_all({from_numbers(DType::f32, {5}, amaxes),
                 from_numbers(DType::f32, {5}, {1, 2, 3, 4, 5}), random(DType::f32, {5, 3}, 1),
                 from_numbers(DType::i32, {5}, {0, 1, 2, 5, -1}), test::zeros(DType::f32, {1})},
                {},
                [=](const Table& table, const std::vector<View>& out, const std::vector<View>&) {
                  const Fp8Scales scales = {out[0].as<float>(),
                                            out[1].as<float>(),
                                            out[2].as<float>(),
                                            out[3].as<int32_t>(),
                                            out[4].as<float>(),
                                            5,
                                            3};
                  table.fp8_delayed_scale(scales, {448, 2, most_recent});
                });
  for (const double amax : {0.3, 0.0, double(INFINITY), double(NAN), 1e-40})
    for (const bool power_of_two : {false, true})
      compare(unwritten(DType::f32, {1}), {from_numbers(DType::f32, {1}, {amax})},
              [=](const Table& table, View out, const std::vector<View>& in) {
                table.fp8_current_scale(out.as<float>(), in[0].as<const float>(),
                                        {448, 0, power_of_two, 65504});
              });
}
