#include "examples/gpt2_text/trainer.h"

#include "examples/training/agreement.h"
#include "examples/training/loop_parts.h"
#include "examples/training/non_finite.h"
#include "examples/training/console.h"
#include "examples/training/metrics.h"
#include "examples/training/stop_signal.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace gpt2_text {

using namespace booster;
using example::number;

namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Returns the mean loss over all tokens of a batch (n, tokens).
Tensor next_token_loss(const Tensor& logits, const Tensor& target) {
  return cross_entropy(flatten(logits, 0, 1), flatten(target));
}

}  // namespace

Trainer::Trainer(const Config& config, const World& world)
    : config_(config),
      world_(world),
      output_(config.get<std::string>("train.output_dir")),
      booster_(Booster::from_config(config)),
      accumulate_(config.get<int64_t>("train.accumulate")),
      log_every_(config.get<int64_t>("train.log_every")) {
  example::check_all_ranks_train(booster_, world);
  const auto seed = config.get<uint64_t>("train.seed");
  manual_seed(seed);
  const Model model = make_model(config);
  const Optimizer optimizer = make_optimizer(config, model);
  texts_ = open_texts(config);
  const DataLoader loader =
      booster_.prepare_dataloader(TensorDataset(texts_.train.inputs, texts_.train.targets),
                                  {.batch_size = config.get<int64_t>("data.batch_size"),
                                   .shuffle = true,
                                   .drop_last = true,
                                   .seed = seed,
                                   .device = device_of(config)});
  const int64_t steps_per_epoch = example::steps_of_epoch(loader, accumulate_);
  check(steps_per_epoch > 0,
        "train: an epoch has no whole batch; got {} windows, want at least {} (data.batch_size x "
        "ranks)",
        texts_.train.size(), loader.options().batch_size * world.size);
  tokens_per_batch_ = config.get<int64_t>("data.tokens") * loader.options().batch_size *
                      booster_.plugin().mesh().size("data");
  total_steps_ = steps_per_epoch * config.get<int64_t>("train.epochs");
  if (const auto most = config.get<int64_t>("train.max_steps"); most > 0)
    total_steps_ = std::min(total_steps_, most);
  boosted_ = booster_.boost(model, optimizer, next_token_loss, loader,
                            make_lr_scheduler(config, optimizer, total_steps_));
  // Weights are the same on all ranks; dropout differs between ranks with different data.
  seed_ranks(seed, booster_.plugin().mesh());
  example::on_first_rank(world, "train.output_dir", [&] { folder_.emplace(output_); });
  resume();
  example::on_first_rank(world, "metrics.jsonl", [&] {
    files_.emplace(output_, example::RunFiles::At{step_, metrics_bytes_}, "");
  });
}

int Trainer::run() {
  announce();
  example::catch_stop_signals();
  logged_at_ = seconds();
  while (signal_ == 0 && (step_ < total_steps_ || validated_step_ != step_)) {
    // A training that was stopped in the validation between two epochs resumes with that
    // validation.
    const bool due =
        step_ > 0 && validated_step_ != step_ && boosted_->dataloader.state().batch == 0;
    if (!due && step_ < total_steps_) train_epoch();
    if (signal_ == 0 && validated_step_ != step_) validate();
    if (signal_ != 0 || step_ == total_steps_) save();
  }
  if (signal_ == 0) {
    const std::string text = sample();
    if (first_rank())
      example::print(fmt::format("{} steps; results in {}\n{}\n", step_, output_.string(), text));
    return first_rank() && files_->has_lost_metrics() ? 1 : 0;
  }
  if (first_rank())
    example::print(fmt::format("stopped by signal {} after step {}; the same command goes on\n",
                               signal_, step_));
  return 128 + static_cast<int>(signal_);
}

void Trainer::announce() const {
  if (!first_rank()) return;
  if (texts_.made) warn("warning: no data.file; the text is made up of simple sentences");
  example::print(fmt::format("{}\nmodel: {}, {:.2f} M parameters; {} on {} ({} ranks), {} steps\n",
                             texts_.said, config_.get<std::string>("model.name"),
                             static_cast<double>(boosted_->model->parameter_count()) / 1e6,
                             booster_.precision().name(), booster_.plugin().name(), world_.size,
                             total_steps_));
}

void Trainer::train_epoch() {
  auto& [net, opt, loss_fn, data, lr] = *boosted_;
  net.train();
  const double clip = config_.get<double>("train.clip_grad_norm");
  int64_t done = 0, parts = 0;
  double loss = 0;
  for (auto batch = data.begin(); batch != data.end(); ++batch) {
    if (done == 0) {
      opt.zero_grad();
      parts = example::parts_of_step(data, accumulate_);
    }
    const bool last = ++done == parts;
    loss += example::backward(booster_, *boosted_, *batch, parts, last);
    tokens_ += tokens_per_batch_;
    if (!last) continue;
    if (clip > 0) opt.clip_grad_by_norm(clip);
    const StepReport report = opt.step();
    lr.step(report);
    after_step(loss, report);
    if (step_ == total_steps_ || signal_ != 0) return;
    done = 0;
    loss = 0;
  }
  signal_ = example::agreed_stop_signal(world_, folder_, output_);
}

void Trainer::after_step(double loss, const StepReport& report) {
  ++step_;
  if (report.skipped()) ++skipped_;
  loss = example::mean(world_, loss);
  signal_ = example::agreed_stop_signal(world_, folder_, output_);
  if (!std::isfinite(loss))
    fail_run("step {}: the loss is {}; try a smaller optimizer.lr (now {:.4g})", step_, loss,
             boosted_->optimizer.lr());
  if (step_ % log_every_ == 0 || step_ == total_steps_) {
    const auto tokens = static_cast<double>(std::exchange(tokens_, 0));
    add_metrics({{"step", step_},
                 {"epoch", boosted_->dataloader.state().epoch},
                 {"loss", number(loss)},
                 {"lr", boosted_->optimizer.lr()},
                 {"loss_scale", number(report.loss_scale())},
                 {"skipped", skipped_},
                 {"tokens_per_s", number(tokens / (seconds() - logged_at_))}});
    if (first_rank()) example::print(fmt::format("step {}: loss {:.4f}\n", step_, loss));
    logged_at_ = seconds();
  }
  const auto every = config_.get<int64_t>("train.checkpoint_every");
  // The last step is saved after its validation.
  if (every > 0 && step_ % every == 0 && step_ < total_steps_ && signal_ == 0) save_if_possible();
}

// Evaluates each window of the validation text once, on any number of ranks. All ranks run the same
// number of forward passes, because a forward may be collective; a rank with no window left runs
// one whose result is ignored. A stop signal ends the validation without a result.
void Trainer::validate() {
  const NoGradGuard no_grad;
  const Windows& windows = texts_.validation;
  const Mesh mesh = booster_.plugin().mesh();
  const int64_t most = boosted_->dataloader.options().batch_size;
  std::vector<double> totals(2);  // of losses, of windows
  boosted_->model.eval();
  for (int64_t begin = 0; begin < windows.size(); begin += most * mesh.size("data")) {
    signal_ = example::agreed_stop_signal(world_, folder_, output_);
    if (signal_ != 0) return;
    const int64_t mine = begin + most * mesh.place("data");
    const int64_t count = std::clamp<int64_t>(windows.size() - mine, 0, most);
    const auto share_of = [&](const Tensor& all) {
      const Tensor share = narrow(all, 0, count > 0 ? mine : 0, std::max<int64_t>(count, 1));
      return share.to(boosted_->dataloader.options().device);
    };
    const Tensor logits = boosted_->model(share_of(windows.inputs));
    const double loss = next_token_loss(logits, share_of(windows.targets)).item();
    totals[0] += loss * static_cast<double>(count);
    totals[1] += static_cast<double>(count);
  }
  if (world_.size > 1) world_.group().all_reduce(totals);
  const double loss = totals[0] / totals[1];
  validated_step_ = step_;
  add_metrics({{"step", step_}, {"val_loss", number(loss)}});
  if (first_rank())
    example::print(fmt::format("validation after step {}: loss {:.4f}, {:.3f} bits per byte\n",
                               step_, loss, loss / std::log(2.0)));
}

// Returns text that the model writes after the first bytes of the validation text. Each byte is
// drawn from the model's distribution: the largest logit after adding Gumbel noise.
std::string Trainer::sample() {
  const auto length = config_.get<int64_t>("train.sample_bytes");
  if (length == 0) return "";
  const NoGradGuard no_grad;
  Generator generator(config_.get<uint64_t>("train.seed"));  // all ranks draw the same
  const Tensor first = select(texts_.validation.inputs, 0, 0);
  // Ranks may share the tokens, so the context length is a multiple of their number where one fits.
  const int64_t window = first.size(0), share = std::min<int64_t>(world_.size, window);
  const int64_t most = window / share * share, given = std::min<int64_t>(16, window);
  const Device device = boosted_->model.unwrap().parameters()[0].tensor.device();
  std::vector<uint8_t> text = narrow(first, 0, 0, given).to_vector<uint8_t>();
  boosted_->model.eval();
  for (int64_t i = 0; i < length; ++i) {
    const auto seen = std::min(most, static_cast<int64_t>(text.size()));
    std::vector<uint8_t> read(text.end() - seen, text.end());
    // Padding changes nothing: no token depends on a later one.
    while (static_cast<int64_t>(read.size()) % share != 0) read.push_back(0);
    const Tensor ids = from_vector(read, {1, static_cast<int64_t>(read.size())}).to(device);
    const Tensor logits = select(select(boosted_->model(ids), 0, 0), 0, seen - 1);
    const Tensor noise = -log(-log(uniform({256}, 0, 1, {}, generator)));
    const Tensor next = argmax(cast(narrow(logits, 0, 0, 256), DType::f32).to({}) + noise, 0);
    text.push_back(static_cast<uint8_t>(next.item()));
  }
  return terminal_lines(std::string(text.begin(), text.end()));
}

void Trainer::add_metrics(const nlohmann::json& line) {
  if (first_rank()) files_->add(line);
}

void Trainer::check_weights() {
  const bool broken = !example::weights_are_finite(boosted_->model.unwrap());
  if (example::largest(world_, {broken})[0] != 0)
    fail_run("step {}: the weights are not finite and were not saved", step_);
}

void Trainer::write_checkpoint() {
  save_training(output_ / "checkpoint", *boosted_,
                {.step = step_,
                 .extra = {{"metrics_bytes", first_rank() ? files_->metrics_bytes() : 0},
                           {"validated_step", validated_step_},
                           {"skipped", skipped_}},
                 .settings = example::own_settings(config_)});
}

void Trainer::save() {
  example::agreed_stop_signal(world_, folder_, output_);
  check_weights();
  write_checkpoint();
}

// Between steps a failed checkpoint does not end the training: the next may succeed.
void Trainer::save_if_possible() {
  check_weights();
  const bool saved = example::attempt([this] { write_checkpoint(); }, first_rank());
  if (!saved) world_.group().barrier();  // throws if a rank has died
}

void Trainer::resume() {
  const auto resumed =
      resume_training(output_ / "checkpoint", *boosted_, warn, example::own_settings(config_));
  if (!resumed) return;
  step_ = resumed->step;
  const StateReader extra = resumed->extra_values();
  metrics_bytes_ = extra.member("metrics_bytes").count();
  skipped_ = extra.member("skipped").count();
  if (const auto step = extra.find("validated_step")) validated_step_ = step->whole_from(-1);
  if (first_rank())
    example::print(fmt::format("resumed from step {} of {}\n", step_, total_steps_));
  example::check_steps_left(config_, boosted_->dataloader, step_, total_steps_);
}

}  // namespace gpt2_text
