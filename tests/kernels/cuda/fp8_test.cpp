// 8-bit floats on a GPU.
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
               from_numbers(DType::f32, {2}, {0.25, 3})},
              [=](const Table& table, View out, const std::vector<View>& in) {
                const auto* inverse = in[2].as<const float>();
                table.fp8_result(out, in[0], offset ? in[1] : View{}, inverse, inverse + 1);
              });
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
