// 8-bit floats on every CPU variant: casts as in PyTorch 2.15 (golden file) and the OFP8
// specification, scales as in NVIDIA's Transformer Engine.
#include "kernels/arguments/fp8.h"

#include "tests/golden_folder.h"
#include "tests/kernels/everywhere.h"

#include <algorithm>
#include <cfloat>
#include <fstream>
#include <limits>
#include <sstream>

using namespace booster;
using namespace booster::kernels::test;
using kernels::Table;

namespace {

constexpr auto e4m3 = Fp8Format::e4m3, e5m2 = Fp8Format::e5m2;
constexpr float inf = std::numeric_limits<float>::infinity();

void on_every_variant(const std::function<void(const Table&)>& body) {
  const std::string chosen = kernels::cpu_variant();
  for (const std::string& variant : kernels::cpu_variants()) {
    CAPTURE(variant);
    kernels::force_cpu_variant(variant);
    body(kernels::on({}));
  }
  kernels::force_cpu_variant(chosen);
}

struct Golden {
  std::vector<uint32_t> input;  // bits of f32, or codes
  std::vector<uint32_t> as_e4m3, as_e5m2;
};

Golden golden(const std::string& kind) {
  std::ifstream file(test::golden_folder() + "/fp8/casts.txt");
  Golden rows;
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind(kind + " ", 0) != 0) continue;
    std::istringstream words(line.substr(kind.size()));
    uint32_t input = 0, first = 0, second = 0;
    words >> std::hex >> input >> first >> second;
    rows.input.push_back(input);
    rows.as_e4m3.push_back(first);
    rows.as_e5m2.push_back(second);
  }
  REQUIRE(rows.input.size() >= 256);
  return rows;
}

std::vector<uint8_t> codes_of(const Table& table, std::vector<float> x, Fp8Format format,
                              bool saturate) {
  std::vector<uint8_t> codes(x.size());
  const auto n = static_cast<int64_t>(x.size());
  const kernels::View in = {
      .data = x.data(), .dtype = DType::f32, .ndim = 1, .shape = {n}, .strides = {1}};
  const kernels::View out = {
      .data = codes.data(), .dtype = DType::u8, .ndim = 1, .shape = {n}, .strides = {1}};
  table.fp8_quantize(out, in, {format, saturate}, nullptr, nullptr, nullptr);
  return codes;
}

struct CastCase {
  float input, value;
  int code;
};
constexpr CastCase e4m3_cases[] = {{0x1p-10f, 0, 0x00},
                                   {0.0009766602f, 0x1p-9f, 0x01},
                                   {0x1.8p-9f, 0x1p-8f, 0x02},
                                   {0x1p-7f, 0x1p-7f, 0x04},
                                   {0.015625f, 0.015625f, 0x08},
                                   {0.3f, 0.3125f, 0x2A},
                                   {1, 1, 0x38},
                                   {1.0625f, 1, 0x38},
                                   {1.1875f, 1.25f, 0x3A},
                                   {3.3f, 3.25f, 0x45},
                                   {17, 16, 0x58},
                                   {19, 20, 0x5A},
                                   {100, 96, 0x6C},
                                   {240, 240, 0x77},
                                   {432, 448, 0x7E},
                                   {464, 448, 0x7E},
                                   {465, 448, 0x7E},
                                   {-0.3f, -0.3125f, 0xAA},
                                   {-448, -448, 0xFE},
                                   {inf, 448, 0x7E},
                                   {-inf, -448, 0xFE}};
constexpr CastCase e5m2_cases[] = {{0x1p-17f, 0, 0x00},
                                   {0x1p-16f, 0x1p-16f, 0x01},
                                   {0x1.8p-16f, 0x1p-15f, 0x02},
                                   {0.3f, 0.3125f, 0x35},
                                   {1, 1, 0x3C},
                                   {1.125f, 1, 0x3C},
                                   {1.375f, 1.5f, 0x3E},
                                   {3.3f, 3.5f, 0x43},
                                   {100, 96, 0x56},
                                   {240, 256, 0x5C},
                                   {448, 448, 0x5F},
                                   {57344, 57344, 0x7B},
                                   {61439, 57344, 0x7B},
                                   {61440, 57344, 0x7B},
                                   {65504, 57344, 0x7B},
                                   {-0.3f, -0.3125f, 0xB5},
                                   {-inf, -57344, 0xFB}};

// Returns the scales of a tensor with the given amaxes: the scale used at each step, then the next
// one.
std::vector<float> delayed_scales(const Table& table, const std::vector<float>& amaxes,
                                  kernels::Fp8DelayedRule rule, int64_t length) {
  float amax = 0, scale = 1, flag = 0;
  std::vector<float> history(static_cast<size_t>(length), 0.0f), used;
  int32_t cursor = 0;
  for (const float seen : amaxes) {
    used.push_back(scale);
    amax = seen;
    table.fp8_delayed_scale({&amax, &scale, history.data(), &cursor, &flag, 1, length}, rule);
    CHECK(amax < 0);
  }
  used.push_back(scale);
  const bool infinite = std::find(amaxes.begin(), amaxes.end(), inf) != amaxes.end();
  CHECK(flag == (infinite ? 1.0f : 0.0f));
  return used;
}

}  // namespace

TEST_CASE("fp8 casts give the codes of the formats' table, saturated and not") {
  on_every_variant([](const Table& table) {
    for (const CastCase& row : e4m3_cases) {
      CAPTURE(row.input);
      CHECK(codes_of(table, {row.input}, e4m3, true)[0] == row.code);
    }
    for (const CastCase& row : e5m2_cases) {
      CAPTURE(row.input);
      CHECK(codes_of(table, {row.input}, e5m2, true)[0] == row.code);
    }
    CHECK(codes_of(table, {61439, 61440, 65504, -inf}, e5m2, false) ==
          std::vector<uint8_t>{0x7B, 0x7C, 0x7C, 0xFC});
    CHECK(codes_of(table, {464, 465, inf, -1e9f}, e4m3, false) ==
          std::vector<uint8_t>{0x7E, 0x7F, 0x7F, 0xFF});
    for (const bool saturate : {true, false}) {
      CHECK(codes_of(table, {NAN}, e4m3, saturate)[0] == 0x7F);
      CHECK(codes_of(table, {NAN}, e5m2, saturate)[0] == 0x7F);
    }
  });
}

TEST_CASE("every tie, its neighbours and the ends of the range are cast as PyTorch casts them") {
  const Golden rows = golden("cast");
  std::vector<float> x;
  for (const uint32_t bits : rows.input) x.push_back(__builtin_bit_cast(float, bits));
  on_every_variant([&](const Table& table) {
    const auto as_e4m3 = codes_of(table, x, e4m3, true), as_e5m2 = codes_of(table, x, e5m2, false);
    for (size_t i = 0; i < x.size(); ++i) {
      CAPTURE(x[i]);
      if (as_e4m3[i] != rows.as_e4m3[i]) CHECK(int{as_e4m3[i]} == rows.as_e4m3[i]);
      if (as_e5m2[i] != rows.as_e5m2[i]) CHECK(int{as_e5m2[i]} == rows.as_e5m2[i]);
    }
  });
}

TEST_CASE("all 256 codes decode to PyTorch's values, in f32, f16 and bf16 alike, and come back") {
  const Golden rows = golden("decode");
  Plain codes = zeros(DType::u8, {256});
  for (int64_t i = 0; i < 256; ++i) codes.set({i}, static_cast<double>(i));
  on_every_variant([&](const Table& table) {
    for (const Fp8Format format : {e4m3, e5m2}) {
      const auto& want = format == e4m3 ? rows.as_e4m3 : rows.as_e5m2;
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        const Plain out = zeros(dtype, {256});
        table.fp8_decode(out.view(), codes.view(), format);
        std::vector<float> decoded;
        for (int64_t i = 0; i < 256; ++i) {
          const float value = __builtin_bit_cast(float, want[static_cast<size_t>(i)]);
          decoded.push_back(static_cast<float>(out.at({i})));
          CHECK((std::isnan(value) ? std::isnan(decoded.back()) : decoded.back() == value));
        }
        const auto back = codes_of(table, decoded, format, false);
        for (size_t i = 0; i < 256; ++i)
          CHECK((std::isnan(decoded[i]) || std::isinf(decoded[i]) ? true : back[i] == i));
      }
    }
  });
}

TEST_CASE("quantizing multiplies by the scale, notes its inverse and the largest magnitude") {
  on_every_variant([](const Table& table) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const int64_t n = 70'001;  // more than one block, and a remainder
      const Plain x = random(dtype, {n}, 3), codes = zeros(DType::u8, {n});
      const float scale = 160;
      float inverse = 0, amax = 0;
      table.fp8_quantize(codes.view(), x.view(), {e4m3}, &scale, &inverse, &amax);
      CHECK(inverse == 1.0f / 160);
      std::vector<float> scaled;
      double largest_x = 0;
      for (int64_t i = 0; i < n; ++i) {
        scaled.push_back(static_cast<float>(x.at({i})) * scale);
        largest_x = std::max(largest_x, std::abs(x.at({i})));
      }
      CHECK(double{amax} == largest_x);
      const auto want = codes_of(table, scaled, e4m3, true);
      for (int64_t i = 0; i < n; ++i)
        if (codes.at({i}) != want[static_cast<size_t>(i)])
          CHECK(codes.at({i}) == want[static_cast<size_t>(i)]);
      float alone = 0;
      table.fp8_amax(x.view(), &alone);
      CHECK(alone == amax);
      x.set({n - 1}, NAN);
      table.fp8_amax(x.view(), &alone);
      CHECK(alone == inf);
      table.fp8_quantize(codes.view(), x.view(), {e4m3}, &scale, &inverse, &amax);
      CHECK(amax == inf);
    }
  });
}

TEST_CASE(
    "a product of codes stands for sums times both inverse scales, plus the bias, rounded once") {
  const Plain sums = random(DType::f32, {3, 37}, 1), bias = random(DType::f32, {37}, 2);
  const float a = 0.25f, b = 3;
  Numbers with, without;
  for_each_index(sums.shape, [&](const Index& i) {
    without.push_back(sums.at(i) * 0.75);
    with.push_back(sums.at(i) * 0.75 + bias.at({i[1]}));
  });
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Plain y = zeros(dtype, {3, 37}), plain = zeros(dtype, {3, 37});
    check_everywhere(
        [&](const Table& table) {
          table.fp8_result(y.view(), sums.view(), bias.view(), &a, &b);
          table.fp8_result(plain.view(), sums.view(), {}, &a, &b);
        },
        {{y, with}, {plain, without}});
  }
}

TEST_CASE("delayed scaling: the scales of amaxes 2, 8, 4, 1, .5, .5, .5, 0, 1e-40, inf") {
  const std::vector<float> amaxes = {2, 8, 4, 1, .5, .5, .5, 0, 1e-40f, inf};
  using Scales = std::vector<float>;
  on_every_variant([&](const Table& table) {
    CHECK(delayed_scales(table, amaxes, {largest(e4m3), 1, false}, 4) ==
          Scales{1, 224, 56, 56, 56, 56, 112, 448, 896, 896, 896});
    CHECK(delayed_scales(table, amaxes, {largest(e4m3), 1, true}, 4) ==
          Scales{1, 224, 56, 112, 448, 896, 896, 896, 896, FLT_MAX, FLT_MAX});
    const Scales margin = delayed_scales(table, amaxes, {largest(e5m2), 2, false}, 4);
    CHECK(Scales(margin.begin(), margin.end() - 1) ==
          Scales{1, 14336, 3584, 3584, 3584, 3584, 7168, 28672, 57344, 57344});
  });
}

TEST_CASE(
    "delayed scaling: a tensor that was not seen keeps history and scale, one of zeros rotates") {
  on_every_variant([](const Table& table) {
    const kernels::Fp8DelayedRule rule = {largest(e4m3), 1, false};
    CHECK(delayed_scales(table, {4, -1, -1, -1, 1}, rule, 2) ==
          std::vector<float>{1, 112, 112, 112, 112, 112});
    CHECK(delayed_scales(table, {4, 0, 1}, rule, 2) == std::vector<float>{1, 112, 112, 448});
  });
}

TEST_CASE("delayed scaling: an infinite amax does not stay in the history") {
  on_every_variant([](const Table& table) {
    CHECK(delayed_scales(table, {4, inf, 1, 1}, {largest(e4m3), 1, false}, 2) ==
          std::vector<float>{1, 112, 112, 112, 448});
  });
}

TEST_CASE(
    "current scaling: scales of amaxes 1, 3, 100, 500, 0, not finite, tiny; powers of two; eps") {
  struct Row {
    float amax, scale, power_of_two;
  };
  const Row rows[] = {{1, 448, 256}, {3, 448.0f / 3, 128}, {100, 4.48f, 4}, {500, 0.896f, 0.5f},
                      {0, 1, 1},     {inf, 1, 1},          {NAN, 1, 1}};
  on_every_variant([&](const Table& table) {
    float scale = 0;
    for (const Row& row : rows) {
      CAPTURE(row.amax);
      table.fp8_current_scale(&scale, &row.amax, {largest(e4m3), 0, false, FLT_MAX});
      CHECK(scale == row.scale);
      table.fp8_current_scale(&scale, &row.amax, {largest(e4m3), 0, true, FLT_MAX});
      CHECK(scale == row.power_of_two);
    }
    const float tiny = 1e-40f, zero = 0, bf16_max = 0x1.FEp127f;
    table.fp8_current_scale(&scale, &tiny, {largest(e4m3), 0, false, bf16_max});
    CHECK(scale == bf16_max);
    table.fp8_current_scale(&scale, &tiny, {largest(e4m3), 0, true, bf16_max});
    CHECK(scale == 0x1p127f);
    table.fp8_current_scale(&scale, &tiny, {largest(e4m3), 0.5f, false, bf16_max});
    CHECK(scale == 896);
    table.fp8_current_scale(&scale, &zero, {largest(e5m2), 0.5f, false, bf16_max});
    CHECK(scale == 114688);
  });
}

TEST_CASE("a product of 8-bit floats is that of their numbers, in every layout") {
  struct Size {
    int64_t m, n, k;
  };
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const Size& size : {Size{1, 1, 1}, {3, 5, 7}, {33, 20, 48}, {4, 3, 0}})
      for (const int layout : {0, 1, 2, 3}) {
        const auto [m, n, k] = size;
        const Index by_rows_a = {std::max<int64_t>(k, 1), 1}, by_columns_a = {1, m};
        const Index by_rows_b = {n, 1}, by_columns_b = {1, std::max<int64_t>(k, 1)};
        const Plain a(DType::u8, {m, k}, layout & 1 ? by_columns_a : by_rows_a);
        const Plain b(DType::u8, {k, n}, layout & 2 ? by_columns_b : by_rows_b);
        std::mt19937 drawn(1);
        for (const Plain* codes : {&a, &b})  // finite, and none large enough to hide the others
          for (char& code : *codes->bytes) code = static_cast<char>((drawn() & 0x9F) | 0x20);
        const Plain bias = random(DType::f32, {n}, 3), y(dtype, {m, n}, {n, 1});
        Plain left(DType::f32, a.shape, a.strides), right(DType::f32, b.shape, b.strides);
        const float inverse_a = 0.25f, inverse_b = 3;
        on_every_variant([&](const Table& table) {
          table.fp8_decode(left.view(), a.view(), e5m2);
          table.fp8_decode(right.view(), b.view(), e4m3);
          y.fill_bytes(0xFF);
          table.fp8_matmul(y.view(), a.view(), e5m2, b.view(), e4m3, bias.view(), &inverse_a,
                           &inverse_b);
          for_each_index({m, n}, [&](const Index& i) {
            double sum = 0, magnitude = std::abs(bias.at({i[1]}));
            for (int64_t d = 0; d < k; ++d) {
              const double term = 0.75 * left.at({i[0], d}) * right.at({d, i[1]});
              sum += term, magnitude += std::abs(term);
            }
            sum += bias.at({i[1]});
            CHECK(std::abs(y.at(i) - sum) <= tolerance(dtype, sum, magnitude));
          });
        });
      }
}
