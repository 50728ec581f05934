// The files that a run keeps in its folder for people: metrics.jsonl, curves.svg, run.json and
// TensorBoard's event files. Only rank 0 has them. For one thread.
#pragma once

#include "examples/training/metrics.h"

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
  // Continues after a step, and after that many bytes of the metrics. Metrics are also written as
  // event files in `events`, unless that path is empty. Errors are of kind failed.
  RunFiles(const std::filesystem::path& folder, At at, const std::filesystem::path& events);

  // Adds a line of metrics; draws the curves of all lines. If they cannot be written, training
  // continues and stderr reports it, for metrics once per row of failures.
  void add(const nlohmann::json& line);
  void draw() const;
  // Returns the size of the metrics, for a checkpoint: they are on the disk then, so that a power
  // cut after the save takes none of them. If they cannot be synced, stderr reports it.
  int64_t metrics_bytes();
  // Returns true if metrics.jsonl was removed or replaced during the run.
  bool has_lost_metrics() const { return metrics_.has_lost_lines(); }

  // The object of run.json, and its writing. Throws an Error of kind failed if it cannot be
  // written.
  nlohmann::json record;
  void write_record() const;

 private:
  std::filesystem::path folder_;
  Metrics metrics_;
  std::optional<booster::report::EventFile> events_;
  bool metrics_fail_ = false, events_fail_ = false, loss_told_ = false;
};

// Returns a line of metrics for TensorBoard: "val_top1" as "validation/top1", others as
// "train/...". null, JSON's form of a non-finite value, becomes nan. Omits step and epoch.
std::vector<booster::report::EventScalar> event_scalars(const nlohmann::json& line);

// Returns the folder for event files from `train.tensorboard`; "" if it asks for none.
std::filesystem::path events_folder(const booster::Config& config);

}  // namespace example
