// The scales of torch.amp.GradScaler, step by step.
#include "tests/mixed_precision/scaled_training.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <string>
#include <vector>

using namespace booster;
using booster::test::ScaledTraining;

namespace {

struct Vector {
  const char* id;
  GradScalerOptions options;
  std::string pattern;       // F3I2: three finite steps, two with an infinity
  std::vector<double> last;  // the scales after the last steps
  int64_t tracker;
  int64_t skipped;
};

std::string expanded(const std::string& pattern) {
  std::string steps;
  for (size_t i = 0; i < pattern.size();) {
    const char letter = pattern[i++];
    size_t digits = 0;
    while (i + digits < pattern.size() && std::isdigit(pattern[i + digits])) ++digits;
    steps += std::string(digits ? std::stoul(pattern.substr(i, digits)) : 1, letter);
    i += digits;
  }
  return steps;
}

double two_to(int power) { return std::ldexp(1.0, power); }

}  // namespace

TEST_CASE("scales follow torch's for every pattern of finite and infinite steps") {
  const Vector vectors[] = {
      {"T1",
       {.init_scale = 65536, .growth_interval = 3},
       "F7",
       {65536, 65536, 131072, 131072, 131072, 262144, 262144},
       1,
       0},
      {"T2",
       {.init_scale = 1024, .growth_interval = 3},
       "FFIFFFI",
       {1024, 1024, 512, 512, 512, 1024, 512},
       0,
       2},
      {"T3", {}, "I5F2", {two_to(15), two_to(14), two_to(13), 4096, 2048, 2048, 2048}, 2, 5},
      {"T4",
       {.init_scale = 8, .growth_interval = 2},
       "FFIFFIFFFF",
       {8, 16, 8, 8, 16, 8, 8, 16, 16, 32},
       0,
       2},
      {"T5",
       {.init_scale = 1, .growth_interval = 2},
       "I4FF",
       {0.5, 0.25, 0.125, 0.0625, 0.0625, 0.125},
       0,
       4},
      {"T6",
       {.init_scale = two_to(127), .growth_interval = 1},
       "F3IF2",
       {two_to(127), two_to(127), two_to(127), two_to(126), two_to(127), two_to(127)},
       0,
       1},
      {"T7",
       {.growth_factor = 1.5, .backoff_factor = 0.8, .growth_interval = 4},
       "F4I2F4",
       {65536, 65536, 65536, 98304, float(78643.2031), 62914.5625, 62914.5625, 62914.5625,
        62914.5625, float(94371.8438)},
       0,
       2},
      {"T8", {.growth_interval = 1}, "FIFIFI", {131072, 65536, 131072, 65536, 131072, 65536}, 0, 3},
      {"T9", {.init_scale = 4, .growth_interval = 2}, "FIFIFFFF", {4, 2, 2, 1, 1, 2, 2, 4}, 0, 2},
      {"T10", {}, "F1999IF2000F2000", {65536, 131072}, 0, 1},
  };
  for (const Vector& vector : vectors) {
    CAPTURE(vector.id);
    GradScaler scaler(vector.options);
    ScaledTraining training;
    std::vector<double> scales;
    int64_t skipped = 0;
    for (const char step : expanded(vector.pattern)) {
      const double before = training.w.item();
      training.backward(scaler, step == 'I' ? INFINITY : 0x1p-130);
      scaler.step(training.optimizer);
      if (step == 'I') {
        CHECK(training.w.item() == before);
        ++skipped;
      }
      scaler.update();
      scales.push_back(scaler.get_scale());
    }
    REQUIRE(scales.size() >= vector.last.size());
    CHECK(std::vector<double>(scales.end() - static_cast<int64_t>(vector.last.size()),
                              scales.end()) == vector.last);
    CHECK(scaler.growth_tracker() == vector.tracker);
    CHECK(skipped == vector.skipped);
  }
}

TEST_CASE("update with a number sets the scale and keeps the counter") {
  GradScaler scaler({.growth_interval = 3});
  ScaledTraining training;
  training.backward(scaler, 1);
  scaler.step(training.optimizer);
  scaler.update();
  scaler.update(128);
  CHECK(scaler.get_scale() == 128);
  CHECK(scaler.growth_tracker() == 1);
  CHECK_THROWS_AS(scaler.update(INFINITY), Error);
}

TEST_CASE("without a floor the scale falls as torch's, to the last whose inverse is finite") {
  GradScaler scaler;
  ScaledTraining training;
  for (int i = 1; i <= 150; ++i) {
    training.backward(scaler, INFINITY);
    scaler.step(training.optimizer);
    scaler.update();
    CHECK(scaler.get_scale() == two_to(std::max(16 - i, -127)));
  }
  CHECK(training.w.item() == 1);
  CHECK(scaler.diagnosis().find("collapsed") != std::string::npos);
}

TEST_CASE("a scale that is set forgets the overflow of its step, and keeps the counter") {
  GradScaler scaler({.growth_interval = 3});
  ScaledTraining training;
  training.backward(scaler, 1);
  scaler.step(training.optimizer);
  scaler.update();
  training.backward(scaler, INFINITY);
  scaler.step(training.optimizer);
  scaler.update(128);
  CHECK(scaler.get_scale() == 128);
  CHECK(scaler.growth_tracker() == 1);
}

TEST_CASE("an interval lowered below the counter means no growth until the next overflow") {
  GradScaler scaler({.growth_interval = 5});
  ScaledTraining training;
  const auto run = [&](double gradient, int steps) {
    for (int i = 0; i < steps; ++i) {
      training.backward(scaler, gradient);
      scaler.step(training.optimizer);
      scaler.update();
    }
  };
  run(0, 3);
  scaler.set_growth_interval(2);
  run(0, 9);
  CHECK(scaler.get_scale() == 65536);
  run(INFINITY, 1);
  run(0, 2);
  CHECK(scaler.get_scale() == 65536);  // / 2, x 2
  scaler.set_growth_interval(0);
  run(0, 9);
  CHECK(scaler.get_scale() == 65536);
}
