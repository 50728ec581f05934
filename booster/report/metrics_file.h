// metrics.jsonl of a run, as its report reads it; and tables of markup. Thread-safe.
#pragma once

#include "booster/report/run_files.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace booster::report {

// The curves of a training: one JSON object for each logged step and each validation, with its
// "step". Treated as untrusted: the file may be damaged, or still grow.
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
  // Returns "lines 3, 7 to 9 (line 3: not JSON)"; "" if no line was skipped.
  std::string describe_left_out() const;
};

MetricsFile read_metrics(const std::filesystem::path& file);

MetricsFile read_metrics(const std::filesystem::path& file);

// As the function of run_files.h, of a file that was read.
std::string curves_file(const MetricsFile& metrics);

// Returns a table; cells are markup. Rows with fewer cells than `head` end early.
std::string markup_table(const std::vector<std::string>& head,
                         const std::vector<std::vector<std::string>>& rows);

}  // namespace booster::report
