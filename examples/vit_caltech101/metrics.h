// metrics.jsonl: one JSON object per logged step and per epoch, readable while the run continues.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>

namespace example {

class Metrics {
 public:
  // Appends to the file after its first `keep_bytes` bytes: lines that a killed run wrote after its
  // last checkpoint are dropped, since the resumed run writes them again.
  Metrics(const std::filesystem::path& path, int64_t keep_bytes);

  // Adds a line. Numbers that JSON cannot hold (nan, infinity) become null.
  void add(const nlohmann::json& line);
  int64_t bytes();

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

// Every line of the file so far.
std::vector<nlohmann::json> read_metrics(const std::filesystem::path& path);

}  // namespace example
