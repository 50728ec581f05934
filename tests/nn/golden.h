// Reads the golden values of tests/golden/nn and generates the inputs that they were computed from.
#pragma once

#include "core/tensor/tensor.h"
#include "tests/golden_folder.h"

#include <nlohmann/json.hpp>

#include <fstream>
#include <string>
#include <vector>

namespace booster::testing {

using Json = nlohmann::json;

inline Json read_golden(const std::string& name) {
  std::ifstream file(test::golden_folder() + "/nn/" + name);
  return Json::parse(file);
}

// Returns the values of `hashed` in tests/golden/make_nn.py.
inline Tensor hashed(const Shape& shape, uint32_t seed, double low = -1, double high = 1) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t h = static_cast<uint32_t>(i) * 2654435761u + seed * 40503u + 12345u;
    h = (h ^ (h >> 15)) * 2246822519u;
    h = (h ^ (h >> 13)) * 3266489917u;
    values[i] = static_cast<float>(low + (high - low) * (static_cast<double>(h >> 16) / 65536));
  }
  return from_vector(values, shape);
}

inline Shape shape_of(const Json& sizes) { return Shape(sizes.get<std::vector<int64_t>>()); }

// Returns the largest difference, relative to the largest expected value (or 1 if that is smaller).
inline double largest_error(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return 1e30;
  double error = 0, scale = 1;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(got[i] - want[i]);
    error = difference > error || difference != difference ? difference : error;
    scale = std::max(scale, std::abs(want[i]));
  }
  return error / scale;
}

}  // namespace booster::testing
