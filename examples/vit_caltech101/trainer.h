// The training of the example: the loop of the README, with evaluation, metrics and checkpoints.
#pragma once

#include "examples/vit_caltech101/datasets.h"
#include "examples/vit_caltech101/metrics.h"
#include "examples/vit_caltech101/progress.h"
#include "examples/vit_caltech101/time_account.h"

#include <booster/booster.h>

#include <filesystem>
#include <optional>

namespace example {

class Trainer {
 public:
  Trainer(const booster::Config& config, const booster::World& world);
  // Trains to the end, or until a stop signal; returns the program's exit code.
  int run();

 private:
  struct StepResult {
    double loss = 0;
    booster::StepReport report;
  };

  int train();
  bool train_epoch();  // false: stopped by a signal
  double backward(const booster::Batch& batch, bool last);
  void before_step();
  void after_step(const StepResult& result);
  void finish_profile();
  void finish_diagnosis(const booster::Group& group);
  booster::numerics::CheckerOptions checker_options() const;
  void log(const StepResult& result);
  void evaluate();
  std::vector<double> validate();
  bool must_stop();
  void save();
  void resume();
  nlohmann::json own_settings() const;
  void write_curves() const;
  void write_run_record(const nlohmann::json& seconds = {}) const;
  void finish_record();
  // Those of this rank, in both sets.
  std::vector<booster::BadImage> bad_images() const;
  std::string first_bad_image() const;
  void say_bad_images();
  double mean_over_ranks(double value) const;
  bool first_rank() const { return world_.rank == 0; }

  TimeAccount time_;  // of this rank
  const booster::Config& config_;
  booster::World world_;
  std::filesystem::path output_;
  booster::Booster booster_;
  Datasets datasets_;
  std::optional<booster::Boosted> boosted_;
  std::optional<booster::DataLoader> validation_;
  std::optional<Metrics> metrics_;
  std::optional<ProgressDisplay> progress_;
  std::optional<booster::StepRange> profiled_;
  std::optional<booster::Profiler> profiler_;  // while it records
  std::optional<booster::Diagnose> doctor_;    // until all its steps are done
  int64_t accumulate_, epochs_, steps_per_epoch_, total_steps_;
  int64_t epoch_ = 0, step_ = 0, saved_step_ = -1, validated_step_ = -1;
  int64_t metrics_bytes_ = 0;
  nlohmann::json resumed_;  // from which step, and what was changed; null: it did not
  double loss_sum_ = 0, seconds_sum_ = 0, wait_before_ = 0;
  int64_t images_sum_ = 0, skipped_ = 0;
  double images_per_second_ = 0, last_top1_ = 0;
  bool refusal_told_ = false;
  int exit_code_ = 0;
};

}  // namespace example
