// metrics.jsonl, the curves of a training: one JSON object for each logged step and each
// validation, with its "step". Treated as untrusted: the file may be damaged, or still grow.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace booster::report {

struct MetricsFile {
  // A line that is not a JSON object, and the reason.
  struct LeftOut {
    int64_t line;
    std::string reason;
  };

  std::vector<nlohmann::json> lines;  // each an object
  std::vector<LeftOut> left_out;
  bool readable = false;

  // Returns the values of `key` with their steps; skips lines that lack either.
  std::vector<std::pair<double, double>> series(const std::string& key) const;
  // Returns "lines 3, 7 to 9 (line 3: not JSON)"; "" if no line was left out.
  std::string describe_left_out() const;
};

MetricsFile read_metrics(const std::filesystem::path& file);

// Returns curves.svg: training loss, learning rate and validation accuracy over the steps.
std::string curves_file(const MetricsFile& metrics);

}  // namespace booster::report
