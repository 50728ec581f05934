// The files that a run keeps for people, in its folder: metrics.jsonl, curves.svg and run.json.
// Rank 0 has them. One thread.
#pragma once

#include "examples/vit_caltech101/report/metrics.h"

#include <nlohmann/json.hpp>

#include <filesystem>

namespace example {

class RunFiles {
 public:
  // Goes on with the metrics behind their first `metrics_bytes` bytes. Errors are of kind failed.
  RunFiles(const std::filesystem::path& folder, int64_t metrics_bytes);

  // A line of metrics, and the curves drawn from all lines. Training goes on if they cannot be
  // written; stderr says so, for the metrics once for each row of failures.
  void add(const nlohmann::json& line);
  void draw() const;
  int64_t metrics_bytes() const { return metrics_.bytes(); }

  // run.json: the object, and writing it. An Error of kind failed if it cannot be written.
  nlohmann::json record;
  void write_record() const;

 private:
  std::filesystem::path folder_;
  Metrics metrics_;
  bool metrics_fail_ = false;
};

}  // namespace example
