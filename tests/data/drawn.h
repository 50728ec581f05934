// Compares statistics of many random draws with another system's: rate, mean and deviation. Also
// reads its golden values.
#pragma once

#include "core/tensor/tensor.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

namespace booster::test {

using Json = nlohmann::json;

inline Json golden_json(const std::string& name) {
  std::ifstream file(golden_folder() + "/data/" + name + ".json");
  REQUIRE(file.good());
  return Json::parse(file);
}

inline double largest_difference(const Tensor& got, const Json& want) {
  const auto values = got.to_vector<double>();
  REQUIRE(values.size() == want.size());
  double largest = 0;
  for (size_t i = 0; i < values.size(); ++i)
    largest = std::max(largest, std::abs(values[i] - want[i].get<double>()));
  return largest;
}

// Fails about once in ten thousand runs with other seeds: both sides have a sampling error.
constexpr double deviations = 5;

inline void check_rate(int64_t count, int draws, double want) {
  const double rate = static_cast<double>(count) / draws;
  CHECK(std::abs(rate - want) <= deviations * std::sqrt(2 * want * (1 - want) / draws));
}

class Moments {
 public:
  void add(double x) {
    ++count_;
    sum_ += x;
    squares_ += x * x;
  }
  int64_t count() const { return count_; }
  // `want` is {mean, deviation} of about as many draws.
  void check_like(const std::vector<double>& want) const {
    const auto n = static_cast<double>(count_);
    const double mean = sum_ / n, deviation = std::sqrt(squares_ / n - mean * mean);
    const double error = deviations * want[1] * std::sqrt(2 / n);
    CHECK(std::abs(mean - want[0]) <= error);
    CHECK(std::abs(deviation - want[1]) <= error);
  }

 private:
  int64_t count_ = 0;
  double sum_ = 0, squares_ = 0;
};

}  // namespace booster::test
