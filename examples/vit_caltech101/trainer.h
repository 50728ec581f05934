// The example's training: the README's loop, with evaluation, metrics and checkpoints.
#pragma once

#include "examples/vit_caltech101/best_validation.h"
#include "examples/vit_caltech101/data/datasets.h"
#include "examples/vit_caltech101/instruments.h"
#include "examples/training/non_finite.h"
#include "examples/training/output_folder.h"
#include "examples/training/progress.h"
#include "examples/training/run_files.h"
#include "examples/training/time_account.h"
#include "examples/vit_caltech101/validation.h"

#include <booster/booster.h>

#include <chrono>
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
  // Why a training ends before its last step; the same on all ranks.
  enum class Ending { none, signal, non_finite, folder_lost, no_better };

  void count_steps(const booster::DataLoader& loader, int64_t images_of_batch);
  void open_output();
  int train();
  void announce();
  void write_run_record();
  Ending epoch();
  Ending train_epoch();
  void before_step();
  Ending after_step(const StepResult& result);
  void log(const StepResult& result);
  int64_t part_of_epoch(int64_t batches) const;
  bool validation_is_due() const;
  Ending evaluate();
  std::optional<Validation::Result> validate_averages();
  void record(const Validation::Result& result, const std::optional<Validation::Result>& averaged);
  Ending judge(const Validation::Result& result);
  Ending agreed_ending();
  Ending say_non_finite(const std::string& what);
  bool checkpoint_is_due();
  Ending save() { return save_to("checkpoint"); }
  Ending save_to(const char* folder);
  Ending save_if_possible(const char* folder);
  void resume();
  int end_early(Ending ending);
  [[noreturn]] void folder_is_lost();
  void finish();

  // The bad images of this rank, in both data sets.
  std::vector<booster::BadImage> bad_images() const;
  std::string first_bad_image() const;
  bool first_rank() const { return world_.rank == 0; }

  TimeAccount time_;        // of this rank
  booster::Config config_;  // with the values that the data determine
  booster::World world_;
  std::filesystem::path output_;
  booster::Booster booster_;
  Datasets datasets_;
  std::optional<OutputFolder> folder_;  // rank 0 only
  std::optional<booster::Boosted> boosted_;
  std::optional<Validation> validation_;
  std::optional<RunFiles> files_;  // rank 0 only
  std::optional<ProgressDisplay> progress_;
  std::optional<Instruments> instruments_;
  std::optional<booster::ParameterAverage> average_;
  LossWatch losses_;
  BestValidation best_;
  int64_t accumulate_, epochs_, steps_per_epoch_, total_steps_;
  int64_t epoch_ = 0, step_ = 0, saved_step_ = -1, validated_step_ = -1;
  int64_t validated_parts_ = 0;  // of the epoch
  int64_t metrics_bytes_ = 0, signal_ = 0;
  std::chrono::steady_clock::time_point saved_at_ = std::chrono::steady_clock::now();
  nlohmann::json resumed_;  // from which step, and what changed; null if it did not resume
  double seconds_sum_ = 0, wait_before_ = 0;
  int64_t images_sum_ = 0, skipped_ = 0;
  double images_per_second_ = 0, last_top1_ = 0;
};

}  // namespace example
