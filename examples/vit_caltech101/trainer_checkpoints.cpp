// What a trainer saves, and how it goes on from that.
#include "examples/vit_caltech101/trainer.h"

#include "examples/vit_caltech101/agreement.h"
#include "examples/vit_caltech101/loop_parts.h"
#include "examples/vit_caltech101/report/console.h"
#include "examples/vit_caltech101/report/metrics.h"
#include "examples/vit_caltech101/report/run_files.h"

#include <fmt/format.h>

namespace example {

using namespace booster;

namespace {

int64_t saved_count(const nlohmann::json& extra, const char* name) {
  const auto found = extra.find(name);
  const bool is_count = found != extra.end() && found->is_number_integer();
  if (!is_count)
    fail_data("checkpoint: {}: got {}, want a whole number", name,
              found == extra.end() ? "nothing" : found->type_name());
  return found->get<int64_t>();
}

}  // namespace

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
  const auto resumed = resume_training(
      root, *boosted_, [](const std::string& text) { fmt::print(stderr, "{}\n", text); },
      own_settings(config_));
  if (!resumed) return;
  step_ = saved_step_ = resumed->step;
  epoch_ = saved_count(resumed->extra, "epoch");  // whose validation may still be due
  validated_step_ = saved_count(resumed->extra, "validated_step");
  metrics_bytes_ = saved_count(resumed->extra, "metrics_bytes");
  skipped_ = saved_count(resumed->extra, "skipped");
  const auto top1 = resumed->extra.find("val_top1");
  if (top1 != resumed->extra.end() && top1->is_number()) last_top1_ = top1->get<double>();
  resumed_ = {{"step", step_}, {"changes", nlohmann::json::object()}};
  for (const auto& [name, before, now] : resumed->changes)
    resumed_["changes"][name] = {{"before", before}, {"now", now}};
  if (first_rank()) fmt::print("resumed from step {} of {}\n", step_, total_steps_);
}

// Saves the training, unless its weights are not finite: the last checkpoint has better ones.
// Collective.
Trainer::Ending Trainer::save() {
  const auto span = time_.spend_on(Activity::checkpoints);
  const bool broken = !weights_are_finite(boosted_->model.unwrap());
  if (largest(world_, {broken})[0] != 0)
    return say_non_finite(
        fmt::format("step {}: the weights are not finite and were not saved", step_));
  const int64_t bytes = first_rank() ? files_->metrics_bytes() : 0;
  save_training(output_ / "checkpoint", *boosted_,
                {.step = step_,
                 .extra = {{"epoch", epoch_},
                           {"metrics_bytes", bytes},
                           {"validated_step", validated_step_},
                           {"val_top1", number(last_top1_)},
                           {"classes", datasets_.classes},
                           {"skipped", skipped_}},
                 .settings = own_settings(config_)},
                {.keep = static_cast<int>(config_.get<int64_t>("train.keep_checkpoints"))});
  saved_step_ = step_;
  return Ending::none;
}

// Between steps a checkpoint that cannot be written is no reason to end: the next may work.
Trainer::Ending Trainer::save_if_possible() {
  Ending ending = Ending::none;
  const bool saved = attempt([&] { ending = save(); }, first_rank());
  if (!saved) world_.group().barrier();  // an error if a rank has died
  return ending;
}

}  // namespace example
