#include "examples/vit_caltech101/trainer.h"

#include "examples/training/agreement.h"
#include "examples/vit_caltech101/data/bad_images.h"
#include "examples/training/loop_parts.h"
#include "examples/training/console.h"
#include "examples/training/stop_signal.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace example {

using namespace booster;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Returns the learning rate of the head if layers have their own rates (optimizer.layer_decay).
double largest_rate(BoostedOptimizer& optimizer) {
  double largest = 0;
  for (int group = 0; group < optimizer.unwrap().group_count(); ++group)
    largest = std::max(largest, optimizer.lr(group));
  return largest;
}

// Returns "1 step" or "2 steps".
std::string counted(int64_t n, const char* thing) {
  return fmt::format("{} {}{}", n, thing, n == 1 ? "" : "s");
}

}  // namespace

int Trainer::run() {
  try {
    return train();
  } catch (const Error&) {
    attempt([&] { instruments_->finish_alone(); });  // the doctor may have seen the reason
    folder_.reset();
    throw;
  }
}

int Trainer::train() {
  announce();
  catch_stop_signals();
  const auto rest = time_.spend_on(Activity::rest);
  const auto done = [this] {
    const bool at_end = epoch_ >= epochs_ || step_ >= total_steps_ || best_.stops();
    return at_end && validated_step_ == step_;
  };
  while (!done()) {
    const Ending early = epoch();
    if (early != Ending::none && early != Ending::no_better) return end_early(early);
  }
  instruments_->stop();
  if (step_ == 0) fail_data("data: no image to train on could be read; {}", first_bad_image());
  if (saved_step_ != step_) save();
  instruments_->finish();
  finish();
  if (saved_step_ != step_) return 1;
  if (best_.stops())
    progress_->say(fmt::format("stopped early: {} without one better than {}",
                               counted(config_.get<int64_t>("train.early_stopping"), "validation"),
                               best_.told()));
  progress_->say(fmt::format("validation accuracy {:.2f} % after {}; results in {}{}",
                             100 * last_top1_, counted(step_, "step"), output_.string(),
                             datasets_.made ? " (of images that were made up)" : ""));
  if (first_rank() && files_->has_lost_metrics()) return std::max(1, instruments_->exit_code());
  return instruments_->exit_code();
}

void Trainer::announce() {
  if (first_rank() && datasets_.made)
    warn(
        fmt::format("warning: no data; neither data.root nor the variable DATA names a folder. "
                    "The images are made up, in {}: accuracies say nothing about Caltech101",
                    datasets_.root));
  progress_->say(datasets_.said);
  progress_->say(fmt::format(
      "model: {}, {:.2f} M parameters; {} on {} ({}), {}", config_.get<std::string>("model.name"),
      static_cast<double>(boosted_->model->parameter_count()) / 1e6, booster_.precision().name(),
      booster_.plugin().name(), counted(world_.size, "rank"), counted(total_steps_, "step")));
  on_first_rank(world_, "run.json", [&] { write_run_record(); });
  if (config_.get<std::string>("booster.mixed_precision.name") == "auto")
    progress_->say("mixed_precision auto: " + auto_precision().reason);
}

// Writes the hardware and software that gave the result; finish() adds what is known at the end.
void Trainer::write_run_record() {
  files_->record = {
      {"config", config_.to_json()},
      {"command", command_line()},
      {"git", revisions()},
      {"versions", library_versions()},
      {"machine", machine_info()},
      {"ranks", world_.size},
      {"data",
       {{"root", datasets_.root}, {"made_up", datasets_.made}, {"classes", datasets_.classes}}}};
  if (!resumed_.is_null()) files_->record["resumed"] = resumed_;
  files_->write_record();
}

// Runs the rest of an epoch and its validations. In a checkpoint between the two, the loader is at
// the end of that epoch or at the start of the next.
Trainer::Ending Trainer::epoch() {
  DataLoader& data = boosted_->dataloader;
  const LoaderState at = data.state();
  const bool due = step_ > 0 && validated_step_ != step_;
  const bool at_end = due && at.batch == data.size(), at_next = due && at.batch == 0;
  if (at_end) data.load_state({at.epoch + 1, 0});
  if (at_next) epoch_ = static_cast<int64_t>(at.epoch) - 1;
  if (!due && at.batch == 0) epoch_ = static_cast<int64_t>(at.epoch);
  if (due && validation_is_due())
    if (const Ending early = evaluate(); early != Ending::none) return early;
  if (!at_end && !at_next && step_ < total_steps_)
    if (const Ending early = train_epoch(); early != Ending::none) return early;
  if (validated_step_ != step_) {
    if (step_ < total_steps_) data.prepare();  // for the next epoch
    if (const Ending early = evaluate(); early != Ending::none) return early;
  }
  validated_parts_ = part_of_epoch(data.state().batch);  // 0 at the start of the next epoch
  if (step_ < total_steps_) ++epoch_;
  return Ending::none;
}

Trainer::Ending Trainer::train_epoch() {
  auto& [net, opt, loss_fn, data, lr] = *boosted_;
  net.train();
  const double clip = config_.get<double>("train.clip_grad_norm");
  int64_t micro = 0, parts = 0, images = 0;
  double loss_sum = 0;
  auto start = Clock::now();
  const auto waiting = time_.spend_on(Activity::data);
  for (auto batch = data.begin();; ++batch) {
    if (batch == data.end()) return agreed_ending();
    // Only between steps: a forward pass already changed random state and statistics.
    if (const Ending early = micro == 0 ? agreed_ending() : Ending::none; early != Ending::none) {
      const LoaderState at = data.state();
      if (at.batch > 0) data.load_state({at.epoch, at.batch - 1});  // the next run takes this batch
      return early;
    }
    const auto training = time_.spend_on(Activity::training);
    if (micro == 0) parts = parts_of_step(data, accumulate_);
    const bool last = ++micro == parts;
    if (micro == 1) before_step();
    loss_sum += example::backward(booster_, *boosted_, *batch, parts, last);
    images += batch->image.size(0);
    if (!last) continue;
    if (clip > 0) opt.clip_grad_by_norm(clip);
    const StepReport report = opt.step();
    if (average_) average_->update(report, step_ + 1);
    lr.step(report);
    seconds_sum_ += seconds_since(start);
    images_sum_ += images;
    if (const Ending early = after_step({loss_sum, report}); early != Ending::none) return early;
    if (step_ >= total_steps_) return agreed_ending();
    micro = images = 0;
    loss_sum = 0;
    start = Clock::now();
  }
}

void Trainer::before_step() {
  instruments_->before_step(step_ + 1);
  boosted_->optimizer.zero_grad();
  const DataLoader& data = boosted_->dataloader;
  const int64_t batches = data.state().batch - 1 + parts_of_step(data, accumulate_);
  const bool ends_epoch = batches == data.size() || step_ + 1 == total_steps_;
  if (ends_epoch || part_of_epoch(batches) > validated_parts_) validation_->prepare();
}

Trainer::Ending Trainer::after_step(const StepResult& result) {
  const auto rest = time_.spend_on(Activity::rest);
  ++step_;
  instruments_->after_step(step_);
  if (result.report.skipped()) ++skipped_;
  losses_.see(step_, result.loss);
  images_per_second_ =
      static_cast<double>(images_sum_) * booster_.plugin().mesh().size("data") / seconds_sum_;
  progress_->step(step_, epoch_, result.loss, images_per_second_);
  if (step_ % config_.get<int64_t>("train.log_every") == 0 || step_ == total_steps_) log(result);
  if (validation_is_due() && step_ < total_steps_)
    if (const Ending early = evaluate(); early != Ending::none) return early;
  // The last step is saved after its evaluation.
  if (step_ >= total_steps_ || !checkpoint_is_due()) return Ending::none;
  const Ending early = agreed_ending();
  return early == Ending::none ? save_if_possible("checkpoint") : early;
}

void Trainer::log(const StepResult& result) {
  const double loss = mean(world_, result.loss), wait = boosted_->dataloader.wait_seconds();
  const std::string refusal = result.report.refusal();
  nlohmann::json line = {{"step", step_},
                         {"epoch", epoch_},
                         {"loss", number(loss)},
                         {"lr", largest_rate(boosted_->optimizer)},
                         {"loss_scale", number(result.report.loss_scale())},
                         {"skipped", skipped_},
                         {"images_per_s", number(images_per_second_)},
                         {"data_wait_s", wait - wait_before_}};
  if (!refusal.empty()) line["refusal"] = refusal;
  if (first_rank()) files_->add(line);
  progress_->log(step_, epoch_, loss, images_per_second_);
  wait_before_ = wait;
  images_sum_ = 0;
  seconds_sum_ = 0;
}

// Returns the reason to end that any rank has seen; the same on all ranks. Collective.
Trainer::Ending Trainer::agreed_ending() {
  const bool lost = first_rank() && folder_->lost();
  const auto any = largest(world_, {lost, losses_.found(), stop_signal()});
  signal_ = any[2];
  if (any[0] != 0) return Ending::folder_lost;
  if (losses_.is_news(any[1] != 0))
    if (const Ending early = say_non_finite(losses_.describe(world_)); early != Ending::none)
      return early;
  return signal_ != 0 ? Ending::signal : Ending::none;
}

Trainer::Ending Trainer::say_non_finite(const std::string& what) {
  const bool stops = config_.get<std::string>("train.on_nan") == "stop";
  const std::string kept = saved_step_ < 0
                               ? "No checkpoint has been saved"
                               : fmt::format("The checkpoint of step {} stays", saved_step_);
  if (first_rank())
    warn(fmt::format(
        "{}. {}. Try a smaller optimizer.lr (now {:.4g}), train.clip_grad_norm (now {}) or more "
        "steps of warm-up; --diagnose shows where it began. train.on_nan is {}: the training {}",
        what, kept, boosted_->optimizer.lr(), config_.get<double>("train.clip_grad_norm"),
        stops ? "stop" : "warn", stops ? "ends" : "goes on"));
  return stops ? Ending::non_finite : Ending::none;
}

int Trainer::end_early(Ending ending) {
  if (ending == Ending::folder_lost) folder_is_lost();
  instruments_->stop();
  if (ending == Ending::signal && saved_step_ != step_) save();
  instruments_->finish();
  finish();
  if (ending == Ending::non_finite || saved_step_ != step_)
    return std::max(1, instruments_->exit_code());
  progress_->say(fmt::format(
      "stopped by signal {} after step {}; the same command goes on from here", signal_, step_));
  return 128 + static_cast<int>(signal_);
}

// Saves the training again if its folder is missing; a folder that another run has put there stays
// untouched. Then throws.
void Trainer::folder_is_lost() {
  const bool stands = !first_rank() || std::filesystem::exists(output_);
  const bool gone = largest(world_, {!stands})[0] != 0;
  if (gone) save();
  fail_run("train.output_dir: {} or its run.lock was removed or replaced during the training; {}",
           output_.string(),
           gone && saved_step_ == step_ ? fmt::format("step {} is saved there again", step_)
                                        : "another run may be there, so nothing more was written");
}

// Writes the results other than weights at the end of the training.
void Trainer::finish() {
  const auto bad = on_all_ranks(bad_images(), world_);
  if (!bad.empty()) progress_->say(describe_bad_images(bad));
  if (!first_rank()) return;
  files_->draw();
  files_->record["bad_images"] = bad;
  files_->record["seconds"] = time_.seconds();
  attempt([&] { files_->write_record(); });
  progress_->say(time_.summary());
}

std::vector<BadImage> Trainer::bad_images() const {
  std::vector<BadImage> bad = boosted_->dataloader.bad_images();
  const auto more = validation_->bad_images();
  bad.insert(bad.end(), more.begin(), more.end());
  return bad;
}

std::string Trainer::first_bad_image() const {
  const auto bad = bad_images();
  return bad.empty() ? "no reason is known" : bad[0].reason;
}

}  // namespace example
