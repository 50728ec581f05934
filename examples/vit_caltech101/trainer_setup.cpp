#include "examples/vit_caltech101/trainer.h"

#include "examples/training/agreement.h"
#include "examples/vit_caltech101/data/augmentation.h"
#include "examples/training/loop_parts.h"
#include "examples/training/console.h"
#include "examples/training/stop_signal.h"

#include <algorithm>
#include <utility>

namespace example {

using namespace booster;

namespace {

BestValidation best_validation(const Config& config) {
  const bool averages = config.get<double>("train.ema_decay") > 0;
  return {(averages ? "ema_" : "") + config.get<std::string>("train.eval_metric"),
          config.get<int64_t>("train.early_stopping"),
          config.get<double>("train.early_stopping_min_delta")};
}

// Returns the new model. If there is a checkpoint, its weights replace model.weights.
Model starting_model(const Config& config, bool tells) {
  const std::filesystem::path output = config.get<std::string>("train.output_dir");
  std::error_code error;
  const bool resumes = std::filesystem::exists(output / "checkpoint", error);
  return make_model(resumes ? config.with("model.weights", nullptr) : config,
                    [tells](const std::string& text) {
                      if (tells) print(text + "\n");
                    });
}

// Returns the criterion. Mixup smooths the labels that it makes, so the criterion does not.
Criterion criterion_of(const Config& config) {
  const double smoothing = mixes(config) ? 0 : config.get<double>("train.label_smoothing");
  return CrossEntropyLoss({.label_smoothing = smoothing});
}

}  // namespace

Trainer::Trainer(const Config& config, const World& world)
    : config_(config),
      world_(world),
      output_(config.get<std::string>("train.output_dir")),
      booster_(Booster::from_config(config)),
      best_(best_validation(config)),
      accumulate_(config.get<int64_t>("train.accumulate")),
      epochs_(config.get<int64_t>("train.epochs")) {
  check_all_ranks_train(booster_, world);
  const auto seed = static_cast<uint64_t>(config.get<int64_t>("train.seed"));
  manual_seed(seed);
  datasets_ = open_datasets(config, world);
  const auto classes = static_cast<int64_t>(datasets_.classes.size());
  config_ = for_classes(config, classes);
  Model model = starting_model(config_, first_rank());
  Optimizer optimizer = make_optimizer(config_, model);
  DataLoaderOptions options = training_loader_options(config_, classes);
  DataLoaderOptions validation_options = loader_options(config);
  options.give_up = validation_options.give_up = [] { return stop_signal() != 0; };
  validation_.emplace(datasets_.validation, validation_options, world, booster_.plugin());
  const DataLoader loader = booster_.prepare_dataloader(datasets_.train, options);
  const Mesh mesh = booster_.plugin().mesh();
  count_steps(loader, options.batch_size * mesh.size("data"));
  auto scheduler = make_lr_scheduler(config, optimizer, total_steps_);
  boosted_ = booster_.boost(model, optimizer, criterion_of(config), loader, scheduler);
  // Weights are the same on all ranks; dropout must differ between ranks with different data.
  seed_ranks(seed, mesh);
  if (const double decay = config.get<double>("train.ema_decay"); decay > 0)
    average_.emplace(
        boosted_->optimizer.unwrap(),
        ParameterAverageOptions{.decay = decay, .warmup = config.get<bool>("train.ema_warmup")});
  open_output();
}

void Trainer::count_steps(const DataLoader& loader, int64_t images_of_batch) {
  steps_per_epoch_ = steps_of_epoch(loader, accumulate_);
  check(steps_per_epoch_ > 0,
        "train: an epoch has no whole batch; got {} training images on {} ranks, want at least {} "
        "(batch_size x ranks)",
        datasets_.train->size(), world_.size, images_of_batch);
  const int64_t validations = config_.get<int64_t>("train.validations_per_epoch");
  check(validations <= steps_per_epoch_,
        "train.validations_per_epoch: more than an epoch has steps; got {}, want at most {}",
        validations, steps_per_epoch_);
  const int64_t max_steps = config_.get<int64_t>("train.max_steps");
  total_steps_ = steps_per_epoch_ * epochs_;
  if (max_steps > 0) total_steps_ = std::min(total_steps_, max_steps);
}

// Locks the output folder, resumes from its contents, and opens the files to write there.
void Trainer::open_output() {
  on_first_rank(world_, "train.output_dir", [&] { folder_.emplace(output_); });
  resume();
  boosted_->dataloader.prepare();
  on_first_rank(world_, "metrics.jsonl", [&] {
    files_.emplace(output_, RunFiles::At{step_, metrics_bytes_}, events_folder(config_));
  });
  progress_.emplace(step_, total_steps_, !first_rank());
  instruments_.emplace(config_, world_, output_, boosted_->model, step_,
                       [this](const std::string& text) { progress_->say(text); });
}

}  // namespace example
