// metrics.jsonl, the curves of a training: one JSON object for each logged step and each
// validation, with its "step". Read without trust: the file may be damaged, or still grow.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace booster::report {

struct MetricsFile {
  // A line that is no JSON object, and why.
  struct LeftOut {
    int64_t line;
    std::string reason;
  };

  std::vector<nlohmann::json> lines;  // each an object
  std::vector<LeftOut> left_out;
  bool readable = false;

  // The numbers of `key` with their steps; none of lines without either.
  std::vector<std::pair<double, double>> series(const std::string& key) const;
  // "lines 3, 7 to 9 (line 3: not JSON)"; "" if none was left out.
  std::string describe_left_out() const;
};

MetricsFile read_metrics(const std::filesystem::path& file);

// curves.svg: training loss, learning rate and validation accuracy over the steps, as a file.
std::string curves_file(const MetricsFile& metrics);

}  // namespace booster::report
