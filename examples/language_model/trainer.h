// The example's training: the README's loop, with validation, metrics, checkpoints, and at the end
// a folder for transformers and a text that the model writes.
#pragma once

#include "examples/language_model/data.h"
#include "examples/training/output_folder.h"
#include "examples/training/run_files.h"

#include <booster/booster.h>

#include <filesystem>
#include <optional>

namespace language_model {

class Trainer {
 public:
  Trainer(const booster::Config& config, const booster::World& world);
  // Trains to the end, or until a stop signal; returns the program's exit code.
  int run();

 private:
  void announce() const;
  void train_epoch();
  void after_step(double loss, const booster::StepReport& report);
  void validate();
  void finish();
  std::string sample(const std::filesystem::path& folder, int64_t length);
  std::string model_name() const;
  void add_metrics(const nlohmann::json& line);
  void check_weights();
  void write_checkpoint();
  void save();
  void save_if_possible();
  void resume();
  bool first_rank() const { return world_.rank == 0; }

  const booster::Config& config_;
  booster::World world_;
  std::filesystem::path output_;
  booster::Booster booster_;
  Vocabulary vocabulary_;
  Data data_;
  std::optional<booster::Boosted> boosted_;
  std::optional<example::OutputFolder> folder_;  // rank 0 only
  std::optional<example::RunFiles> files_;       // rank 0 only
  int64_t accumulate_, total_steps_ = 0, log_every_, step_ = 0, skipped_ = 0;
  int64_t metrics_bytes_ = 0, signal_ = 0;
  int64_t tokens_ = 0;  // trained on since the last line of metrics
  int64_t validated_step_ = -1;
  double logged_at_ = 0;  // seconds
};

}  // namespace language_model
