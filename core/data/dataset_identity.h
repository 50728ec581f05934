// Distinguishes data sets without reading their samples, so that a training continues only with the
// data that it was saved with. Values; thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace booster {

struct DatasetIdentity {
  std::string kind = "data set";
  int64_t samples = 0;
  int64_t classes = 0;       // 0: none
  uint64_t fingerprint = 0;  // of names and labels in their order; 0: unknown
  friend bool operator==(const DatasetIdentity&, const DatasetIdentity&) = default;
};

// A hash (FNV-1a, 64 bits) of the added values in their order; the same on every machine.
class Fingerprint {
 public:
  void add(std::string_view bytes);
  void add(int64_t number);
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace booster
