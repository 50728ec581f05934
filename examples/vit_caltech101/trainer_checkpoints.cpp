// How a trainer saves and resumes.
#include "examples/vit_caltech101/trainer.h"

#include "examples/training/agreement.h"
#include "examples/training/loop_parts.h"
#include "examples/training/console.h"
#include "examples/training/metrics.h"
#include "examples/training/run_files.h"

#include <fmt/format.h>

namespace example {

using namespace booster;

void Trainer::resume() {
  const auto span = time_.spend_on(Activity::checkpoints);
  const std::filesystem::path root = output_ / "checkpoint";
  if (config_.get<std::string>("train.resume") == "never") {
    check(!std::filesystem::exists(root),
          "train.resume: never, but {} holds a training; want another train.output_dir, or auto to "
          "go on",
          root.string());
    return;
  }
  const auto resumed = resume_training(root, *boosted_, warn, own_settings(config_));
  if (!resumed) return;
  step_ = saved_step_ = resumed->step;
  const StateReader extra = resumed->extra_values();
  epoch_ = extra.member("epoch").count();  // its validation may still be due
  validated_step_ = extra.member("validated_step").whole_from(-1);
  metrics_bytes_ = extra.member("metrics_bytes").count();
  skipped_ = extra.member("skipped").count();
  if (const auto parts = extra.find("validated_parts")) validated_parts_ = parts->count();
  if (const auto best = extra.find("best")) best_.load(*best);
  if (const auto top1 = extra.find("val_top1")) last_top1_ = top1->number();
  resumed_ = {{"step", step_}, {"changes", nlohmann::json::object()}};
  for (const auto& [name, before, now] : resumed->changes)
    resumed_["changes"][name] = {{"before", before}, {"now", now}};
  if (first_rank()) print(fmt::format("resumed from step {} of {}\n", step_, total_steps_));
  check_steps_left(config_, boosted_->dataloader, step_, total_steps_);
}

// Decides by the step count, or by rank 0's clock. Collective.
bool Trainer::checkpoint_is_due() {
  const int64_t every = config_.get<int64_t>("train.checkpoint_every");
  if (every > 0 && step_ % every == 0) return true;
  const double minutes = config_.get<double>("train.checkpoint_minutes");
  if (minutes == 0) return false;
  const std::chrono::duration<double, std::ratio<60>> passed =
      std::chrono::steady_clock::now() - saved_at_;
  return largest(world_, {first_rank() && passed.count() >= minutes})[0] != 0;
}

// Saves the training in a folder of checkpoints: the newest ones, or the best one. Does not save
// non-finite weights, since the last checkpoint has better ones. Collective.
Trainer::Ending Trainer::save_to(const char* folder) {
  const auto span = time_.spend_on(Activity::checkpoints);
  const bool newest = std::string_view(folder) == "checkpoint";
  if (newest) saved_at_ = std::chrono::steady_clock::now();  // even if the save fails
  const bool broken = !weights_are_finite(boosted_->model.unwrap());
  if (largest(world_, {broken})[0] != 0)
    return say_non_finite(
        fmt::format("step {}: the weights are not finite and were not saved", step_));
  const int64_t bytes = first_rank() ? files_->metrics_bytes() : 0;
  const int64_t keep = newest ? config_.get<int64_t>("train.keep_checkpoints") : 1;
  save_training(output_ / folder, *boosted_,
                {.step = step_,
                 .extra = {{"epoch", epoch_},
                           {"metrics_bytes", bytes},
                           {"validated_step", validated_step_},
                           {"validated_parts", validated_parts_},
                           {"best", best_.state()},
                           {"val_top1", number(last_top1_)},
                           {"classes", datasets_.classes},
                           {"skipped", skipped_}},
                 .settings = own_settings(config_)},
                {.keep = static_cast<int>(keep)});
  if (newest) saved_step_ = step_;
  return Ending::none;
}

// Between steps an unwritable checkpoint does not end the training: the next save may succeed.
Trainer::Ending Trainer::save_if_possible(const char* folder) {
  Ending ending = Ending::none;
  const bool saved = attempt([&] { ending = save_to(folder); }, first_rank());
  if (!saved) world_.group().barrier();  // throws if a rank has died
  return ending;
}

}  // namespace example
