// The files that a run keeps for people, in its folder: metrics.jsonl, curves.svg and run.json; and
// TensorBoard's.
// Rank 0 has them. One thread.
#pragma once

#include "examples/vit_caltech101/report/metrics.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <optional>
#include <vector>

namespace example {

class RunFiles {
 public:
  struct At {
    int64_t step = 0, metrics_bytes = 0;
  };
  // Goes on behind a step, and behind that many bytes of the metrics. The numbers of the metrics
  // also go to the event files of a folder, unless its path is empty. Errors are of kind failed.
  RunFiles(const std::filesystem::path& folder, At at, const std::filesystem::path& events);

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
  std::optional<booster::report::EventFile> events_;
  bool metrics_fail_ = false, events_fail_ = false;
};

// What a line of metrics is for TensorBoard: "val_top1" as "validation/top1", others as "train/..."
// and null, which JSON has for numbers that are not finite, as nan. Not its step and epoch.
std::vector<booster::report::EventScalar> event_scalars(const nlohmann::json& line);

// Where `train.tensorboard` wants event files; "" if it wants none.
std::filesystem::path events_folder(const booster::Config& config);

}  // namespace example
