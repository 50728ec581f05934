// Kernels over many tensors, on every CPU variant, against plain loops in double precision.
#include "tests/kernels/many_tensors.h"

#include <algorithm>

using namespace booster;
using namespace booster::kernels;
using namespace booster::kernels::test;

TEST_CASE("the norm is that of all tensors together, for p = 1, 2, 3 and infinity") {
  for (DType dtype : floating_dtypes) {
    const auto tensors = random_tensors(dtype, 3);
    const auto spans = spans_of(tensors);
    const Numbers x = joined(tensors);
    for (double power : {1.0, 2.0, 3.0, infinity}) {
      CAPTURE(power);
      double want = 0;
      for (double value : x)
        want = power == infinity ? std::max(want, std::abs(value))
                                 : want + std::pow(std::abs(value), power);
      if (power != infinity) want = std::pow(want, 1 / power);
      everywhere([&](const Table& table) {
        double norm = -1;
        table.multi_norm(multi(spans), power, &norm);
        // Squares of f16 values are added in groups of four in f32.
        const double tolerance = dtype == DType::f16 && power == 2 ? 1e-8 : 1e-12;
        CHECK(norm == doctest::Approx(want).epsilon(tolerance));
      });
    }
  }
}

TEST_CASE("the norm of f32 numbers near 2e19 and 3e38 is finite, and nan and inf show") {
  const auto norm_of = [](const Numbers& values, double power) {
    const std::vector<Plain> tensors = {from_numbers(DType::f32, {3}, values)};
    const auto spans = spans_of(tensors);
    double norm = -1;
    on({}).multi_norm(multi(spans), power, &norm);
    return norm;
  };
  CHECK(norm_of({2e19, 2e19, 2e19}, 2) == doctest::Approx(2e19 * std::sqrt(3)).epsilon(1e-6));
  CHECK(norm_of({3e38, 3e38, 3e38}, 2) == doctest::Approx(3e38 * std::sqrt(3)).epsilon(1e-6));
  for (double power : {1.0, 2.0, infinity}) {
    CHECK(norm_of({1, infinity, 2}, power) == infinity);
    CHECK(std::isnan(norm_of({1, NAN, 2}, power)));
  }
  double norm = -1;
  on({}).multi_norm({nullptr, 0}, 2, &norm);
  CHECK(norm == 0);
}

TEST_CASE("unscale multiplies and flags any inf or nan, before or after") {
  for (DType dtype : floating_dtypes) {
    CAPTURE(std::string(name_of(dtype)));
    const auto start = random_tensors(dtype, 9);
    everywhere([&](const Table& table) {
      auto tensors = start;
      const auto spans = spans_of(tensors);
      float found = 0;
      const float half = 0.5f;
      table.multi_unscale(multi(spans), &half, &found);
      CHECK(found == 0);
      Numbers want = joined(start);
      for (double& x : want) x *= 0.5;
      check_close(joined(tensors), want, 0, dtype == DType::f16 ? 0x1p-25 : 0);  // subnormals

      for (double bad : {infinity, -infinity, double(NAN)})
        for (int64_t at : {int64_t(0), int64_t(16384), int64_t(39999)}) {
          const auto spoiled = start;
          const auto bad_spans = spans_of(spoiled);
          spoiled.back().set({at}, bad);
          found = 0;
          table.multi_unscale(multi(bad_spans), &half, &found);
          CHECK(found == 1.0f);
          found = 0;
          table.multi_unscale(multi(bad_spans), nullptr, &found);
          CHECK(found == 1.0f);
        }
    });
  }
}

TEST_CASE("unscale flags a product that overflows though its factors are finite") {
  for (const auto& [dtype, largest] : {std::pair{DType::f32, 3e38},
                                       {DType::f16, 65504.0},
                                       {DType::bf16, 3e38},
                                       {DType::f64, 1.7e308}}) {
    const std::string name = name_of(dtype);
    CAPTURE(name);
    const std::vector<Plain> tensors = {from_numbers(dtype, {3}, {1, largest, 2})};
    const auto spans = spans_of(tensors);
    float found = 0;
    const float two = 2;
    on({}).multi_unscale(multi(spans), &two, &found);
    CHECK(found == 1.0f);
  }
}

TEST_CASE("a check flags what is not finite, or is not once multiplied, and writes nothing") {
  for (const auto& [dtype, largest] : {std::pair{DType::f32, 3e38},
                                       {DType::f16, 65504.0},
                                       {DType::bf16, 3e38},
                                       {DType::f64, 1.7e308}}) {
    const std::string name = name_of(dtype);
    CAPTURE(name);
    const float factors[] = {1, 0.5f, 1.5f};
    for (const double value : {1.0, largest, infinity, -infinity, double(NAN)})
      for (const float& factor : factors) {
        const std::vector<Plain> tensors = {from_numbers(dtype, {40000}, Numbers(40000, 1)),
                                            from_numbers(dtype, {3}, {1, value, 2})};
        const auto spans = spans_of(tensors);
        const auto before = *tensors[1].bytes;
        // A step multiplies in f32 (f64 for f64), so that f16 itself does not overflow.
        const double product = dtype == DType::f64 ? value * factor : float(value * factor);
        everywhere([&](const Table& table) {
          float found = 0;
          table.multi_check(multi(spans), &factor, &found);
          CHECK(found == (std::isfinite(product) ? 0 : 1));
        });
        CHECK(*tensors[1].bytes == before);
      }
  }
}

TEST_CASE("steps are counted where no flag is set, not even nan, and where there is no flag") {
  int64_t counters[3] = {0, 5, -1};
  const std::vector<TensorSpan> spans = {{counters, 2, DType::i64}, {counters + 2, 1, DType::i64}};
  for (const float found : {0.0f, 1.0f, NAN}) on({}).count_steps(multi(spans), &found);
  on({}).count_steps(multi(spans), nullptr);
  CHECK(counters[0] == 2);
  CHECK(counters[1] == 7);
  CHECK(counters[2] == 1);
}

TEST_CASE("unscale by 1 leaves every bit, also of signalling nans") {
  const std::vector<Plain> tensors = {test::zeros(DType::f32, {5})};
  tensors[0].fill_bytes(0x7F);  // 0x7F7F7F7F
  const uint32_t signalling = 0x7FA00001;
  std::memcpy(tensors[0].bytes->data(), &signalling, 4);
  const auto before = *tensors[0].bytes;
  const auto spans = spans_of(tensors);
  const float one = 1;
  float found = 0;
  on({}).multi_unscale(multi(spans), &one, &found);
  CHECK(found == 1.0f);
  CHECK(*tensors[0].bytes == before);
}

TEST_CASE("scale and clamp change every element; clamp keeps nan") {
  for (DType dtype : floating_dtypes) {
    CAPTURE(std::string(name_of(dtype)));
    const auto start = random_tensors(dtype, 5);
    everywhere([&](const Table& table) {
      auto tensors = start;
      const auto spans = spans_of(tensors);
      const double factor = 0.3;
      Numbers scaled = joined(start), clamped = scaled;
      for (double& x : scaled) x *= factor;
      for (double& x : clamped) x = std::clamp(x, -0.25, 0.25);
      table.multi_scale(multi(spans), &factor);
      check_close(joined(tensors), scaled, rounding(dtype), 0x1p-24);
      auto others = start;
      others.back().set({3}, NAN);
      const auto other_spans = spans_of(others);
      table.multi_clamp(multi(other_spans), 0.25);
      clamped[clamped.size() - 40000 + 3] = NAN;
      check_close(joined(others), clamped, 0);
    });
  }
}
