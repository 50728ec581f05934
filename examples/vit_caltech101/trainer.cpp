#include "examples/vit_caltech101/trainer.h"

#include "examples/vit_caltech101/curves.h"
#include "examples/vit_caltech101/stop_signal.h"

#include <fmt/format.h>

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

nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nullptr;
}

// "1 step", "2 steps"
std::string counted(int64_t n, const char* thing) {
  return fmt::format("{} {}{}", n, thing, n == 1 ? "" : "s");
}

constexpr size_t bad_images_shown = 10;

int64_t saved_count(const nlohmann::json& extra, const char* name) {
  const auto found = extra.find(name);
  const bool is_count = found != extra.end() && found->is_number_integer();
  if (!is_count)
    fail_data("checkpoint: {}: got {}, want a whole number", name,
              found == extra.end() ? "nothing" : found->type_name());
  return found->get<int64_t>();
}

}  // namespace

Trainer::Trainer(const Config& config, const World& world)
    : config_(config),
      world_(world),
      output_(config.get<std::string>("train.output_dir")),
      booster_(Booster::from_config(config)),
      accumulate_(config.get<int64_t>("train.accumulate")),
      epochs_(config.get<int64_t>("train.epochs")) {
  check(booster_.plugin().group().size() == world.size,
        "booster.plugin: {} trains on {} rank; got {} ranks, want torch_ddp",
        booster_.plugin().name(), booster_.plugin().group().size(), world.size);
  manual_seed(static_cast<uint64_t>(config.get<int64_t>("train.seed")));
  // Everything that depends only on the config comes first, so that its errors leave no files
  // behind.
  Model model = make_model(config);
  Optimizer optimizer = make_optimizer(config, model);
  datasets_ = open_datasets(config, world);
  DataLoaderOptions options = loader_options(config);
  options.shuffle = options.drop_last = true;
  const DataLoader loader = booster_.prepare_dataloader(datasets_.train, options);
  steps_per_epoch_ = loader.size() / accumulate_;
  check(steps_per_epoch_ > 0,
        "train: an epoch has no whole step; got {} training images on {} ranks, want at least {} "
        "(batch_size x accumulate x ranks)",
        datasets_.train->size(), world.size, options.batch_size * accumulate_ * world.size);
  const int64_t max_steps = config.get<int64_t>("train.max_steps");
  total_steps_ = steps_per_epoch_ * epochs_;
  if (max_steps > 0) total_steps_ = std::min(total_steps_, max_steps);

  auto scheduler = make_lr_scheduler(config, optimizer, total_steps_);
  const CrossEntropyLoss criterion(
      {.label_smoothing = config.get<double>("train.label_smoothing")});
  boosted_ = booster_.boost(model, optimizer, criterion, loader, scheduler);
  options.shuffle = options.drop_last = false;
  validation_.emplace(datasets_.validation, options);
  // Weights are the same on all ranks; dropout must differ.
  manual_seed(static_cast<uint64_t>(config.get<int64_t>("train.seed")) +
              1000003ull * static_cast<uint64_t>(world.rank + 1));
  make_folders(output_);
  resume();
  boosted_->dataloader.prepare();
  if (first_rank()) metrics_.emplace(output_ / "metrics.jsonl", metrics_bytes_);
  progress_.emplace(step_, total_steps_, !first_rank());
  profiled_ = parse_step_range(config.get<std::string>("train.profile"));
  if (const auto range = parse_step_range(config.get<std::string>("train.diagnose")))
    doctor_.emplace(
        boosted_->model,
        DiagnoseOptions{.steps = *range, .steps_done = step_, .checker = checker_options()});
}

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
      own_settings());
  if (!resumed) return;
  step_ = saved_step_ = resumed->step;
  epoch_ = resumed->epoch;
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

// Those that the library does not know: "train.accumulate".
nlohmann::json Trainer::own_settings() const {
  nlohmann::json settings = nlohmann::json::object();
  for (const std::string section : {"data", "train"})
    for (const auto& [name, value] : config_.to_json().at(section).items())
      settings[section + "." + name] = value;
  return settings;
}

int Trainer::run() {
  try {
    return train();
  } catch (const Error&) {  // the doctor's findings so far may explain why
    if (doctor_) finish_diagnosis(Group());
    throw;
  }
}

int Trainer::train() {
  progress_->say(datasets_.said);
  progress_->say(fmt::format(
      "model: {}, {:.2f} M parameters; {} on {} ({}), {}", config_.get<std::string>("model.name"),
      static_cast<double>(boosted_->model->parameter_count()) / 1e6, booster_.precision().name(),
      booster_.plugin().name(), counted(world_.size, "rank"), counted(total_steps_, "step")));
  if (first_rank()) write_run_record();
  if (config_.get<std::string>("booster.mixed_precision.name") == "auto")
    progress_->say("mixed_precision auto: " + auto_precision().reason);
  catch_stop_signals();
  const auto rest = time_.spend_on(Activity::rest);
  while (epoch_ < epochs_ && step_ < total_steps_) {
    if (!train_epoch()) {
      if (profiler_) finish_profile();
      if (doctor_) finish_diagnosis(world_.group());
      save();
      finish_record();
      progress_->say(
          fmt::format("stopped by signal {} after step {}; the same command goes on from here",
                      stop_signal(), step_));
      return 128 + stop_signal();
    }
    if (validated_step_ != step_) evaluate();
    if (step_ < total_steps_) ++epoch_;
  }
  if (profiler_) finish_profile();
  if (doctor_) finish_diagnosis(world_.group());
  if (step_ == 0) fail_data("data: no image to train on could be read; {}", first_bad_image());
  if (saved_step_ != step_) save();
  if (first_rank()) write_curves();
  say_bad_images();
  finish_record();
  progress_->say(fmt::format("validation accuracy {:.2f} % after {}; results in {}",
                             100 * last_top1_, counted(step_, "step"), output_.string()));
  return exit_code_;
}

bool Trainer::train_epoch() {
  auto& [net, opt, loss_fn, data, lr] = *boosted_;
  net.train();
  const double clip = config_.get<double>("train.clip_grad_norm");
  int64_t micro = 0, images = 0;
  double loss_sum = 0;
  auto start = Clock::now();
  const auto waiting = time_.spend_on(Activity::data);
  for (auto& [image, label] : data) {
    const auto training = time_.spend_on(Activity::training);
    const bool last = ++micro == accumulate_;
    if (micro == 1) before_step();
    loss_sum += backward({image, label}, last) / static_cast<double>(accumulate_);
    images += image.size(0);
    if (!last) continue;
    if (clip > 0) opt.clip_grad_by_norm(clip);
    const StepReport report = opt.step();
    lr.step(report);
    seconds_sum_ += seconds_since(start);
    images_sum_ += images;
    after_step({loss_sum, report});
    if (step_ >= total_steps_) return true;
    if (must_stop()) return false;
    micro = images = 0;
    loss_sum = 0;
    start = Clock::now();
  }
  return true;
}

// Forward and backward of one batch; gradients stay on this rank unless it is the last of a step.
double Trainer::backward(const Batch& batch, bool last) {
  auto& [net, opt, loss_fn, data, lr] = *boosted_;
  if (!last) {
    const auto local = booster_.no_sync(net, opt);
    return backward(batch, true);
  }
  const Tensor loss = loss_fn(net(batch.image), batch.label);
  booster_.backward(accumulate_ > 1 ? loss / static_cast<double>(accumulate_) : loss, opt);
  return loss.item();
}

void Trainer::before_step() {
  if (profiled_ && step_ + 1 == profiled_->first) profiler_.emplace();
  boosted_->optimizer.zero_grad();
  const bool ends_epoch = (step_ + 1) % steps_per_epoch_ == 0 || step_ + 1 == total_steps_;
  if (ends_epoch) validation_->prepare();
}

void Trainer::after_step(const StepResult& result) {
  const auto rest = time_.spend_on(Activity::rest);
  ++step_;
  if (profiler_ && step_ >= profiled_->last) finish_profile();
  if (result.report.skipped()) ++skipped_;
  images_per_second_ = static_cast<double>(images_sum_) * world_.size / seconds_sum_;
  progress_->step(step_, epoch_, result.loss, images_per_second_);
  if (step_ % config_.get<int64_t>("train.log_every") == 0 || step_ == total_steps_) log(result);
  const int64_t every = config_.get<int64_t>("train.checkpoint_every");
  // The last step is saved after its evaluation.
  if (every > 0 && step_ % every == 0 && step_ < total_steps_) save();
}

void Trainer::log(const StepResult& result) {
  const double loss = mean_over_ranks(result.loss), wait = boosted_->dataloader.wait_seconds();
  const std::string refusal = result.report.refusal();
  nlohmann::json line = {{"step", step_},
                         {"epoch", epoch_},
                         {"loss", number(loss)},
                         {"lr", boosted_->optimizer.lr()},
                         {"loss_scale", number(result.report.loss_scale())},
                         {"skipped", skipped_},
                         {"images_per_s", number(images_per_second_)},
                         {"data_wait_s", wait - wait_before_}};
  if (!refusal.empty()) line["refusal"] = refusal;
  if (first_rank()) metrics_->add(line);
  if (!refusal.empty() && !std::exchange(refusal_told_, true))
    progress_->say(fmt::format("after step {}: {}", step_, refusal));
  progress_->log(step_, epoch_, loss, images_per_second_);
  wait_before_ = wait;
  images_sum_ = 0;
  seconds_sum_ = 0;
}

// All ranks call this after the same step.
void Trainer::finish_profile() {
  profiler_->stop();
  const std::filesystem::path trace = output_ / "trace.json";
  profiler_->write_trace(trace, world_.group());
  const std::string memory = memory_report();  // before the table measures its bounds
  if (first_rank())
    progress_->say(profiler_->table() + memory + "trace of all ranks: " + trace.string());
  profiler_.reset();
}

numerics::CheckerOptions Trainer::checker_options() const {
  const bool alone = world_.size == 1;
  const std::string name = alone ? "worker_cpu" : fmt::format("worker_cpu.{}", world_.rank);
  return {.mode = numerics::check_mode(config_.get<std::string>("train.diagnose_check")),
          .checked_ops = config_.get<std::vector<std::string>>("train.diagnose_ops"),
          .skipped_ops = config_.get<std::vector<std::string>>("train.diagnose_skip_ops"),
          .file = output_ / name};
}

// All ranks call this together with the world's group, or one rank alone after an error.
void Trainer::finish_diagnosis(const Group& group) {
  doctor_->stop(group);
  exit_code_ = doctor_->exit_code();
  const std::filesystem::path path = output_ / "numerics.json";
  if (first_rank()) {
    doctor_->write(path);
    progress_->say(doctor_->table() + "as JSON: " + path.string());
  }
  doctor_.reset();
}

// Number of images, number of correct ones and sum of losses, over all ranks.
std::vector<double> Trainer::validate() {
  const auto waiting = time_.spend_on(Activity::data);
  std::vector<double> totals(3);
  for (auto& [image, label] : *validation_) {
    const auto computing = time_.spend_on(Activity::validation);
    const Tensor logits = boosted_->model(image);
    const auto n = static_cast<double>(image.size(0));
    totals[0] += n;
    totals[1] += sum(equal(argmax(logits, -1), label)).item();
    totals[2] += cross_entropy(logits, label).item() * n;
  }
  world_.group().all_reduce(totals);
  return totals;
}

void Trainer::evaluate() {
  if (step_ < total_steps_) boosted_->dataloader.prepare();  // of the next epoch
  const NoGradGuard no_grad;
  boosted_->model.eval();
  const std::vector<double> totals = validate();
  boosted_->model.train();
  if (totals[0] == 0)
    fail_data("data: no image to validate on could be read; {}", first_bad_image());
  validated_step_ = step_;
  last_top1_ = totals[1] / totals[0];
  const double loss = totals[2] / totals[0];
  if (first_rank()) {
    metrics_->add({{"step", step_},
                   {"epoch", epoch_},
                   {"val_top1", number(last_top1_)},
                   {"val_loss", number(loss)}});
    write_curves();
  }
  progress_->say(fmt::format("epoch {}: validation accuracy {:.2f} %, loss {:.4f}", epoch_,
                             100 * last_top1_, loss));
}

// All ranks stop after the same step, even if only one of them got the signal.
bool Trainer::must_stop() {
  std::vector<int64_t> wanted = {stop_signal()};
  if (world_.size > 1) world_.group().all_reduce(wanted, CollectiveOp::max);
  return wanted[0] != 0;
}

void Trainer::save() {
  const auto span = time_.spend_on(Activity::checkpoints);
  const int64_t bytes = first_rank() ? metrics_->bytes() : 0;
  save_training(output_ / "checkpoint", *boosted_,
                {.step = step_,
                 .extra = {{"metrics_bytes", bytes},
                           {"validated_step", validated_step_},
                           {"val_top1", number(last_top1_)},
                           {"skipped", skipped_}},
                 .settings = own_settings()},
                static_cast<int>(config_.get<int64_t>("train.keep_checkpoints")));
  saved_step_ = step_;
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

void Trainer::say_bad_images() {
  const auto bad = bad_images();
  if (bad.empty()) return;
  progress_->say(
      fmt::format("{} skipped:", counted(static_cast<int64_t>(bad.size()), "bad image")));
  for (size_t i = 0; i < bad.size() && i < bad_images_shown; ++i)
    progress_->say("  " + bad[i].reason);
}

double Trainer::mean_over_ranks(double value) const {
  std::vector<double> values = {value};
  if (world_.size > 1) world_.group().all_reduce(values, CollectiveOp::mean);
  return values[0];
}

void Trainer::write_curves() const {
  write_file(output_ / "curves.svg", draw_curves(read_metrics(output_ / "metrics.jsonl")));
}

// Writes the hardware and software behind the result and, if available, where the time went.
void Trainer::write_run_record(const nlohmann::json& seconds) const {
  nlohmann::json record = {{"config", config_.to_json()},
                           {"versions", library_versions()},
                           {"machine", machine_info()},
                           {"ranks", world_.size}};
  if (!resumed_.is_null()) record["resumed"] = resumed_;
  if (!seconds.is_null()) record["seconds"] = seconds;
  write_file(output_ / "run.json", record.dump(2) + "\n");
}

void Trainer::finish_record() {
  if (!first_rank()) return;
  write_run_record(time_.seconds());
  progress_->say(time_.summary());
}

}  // namespace example
