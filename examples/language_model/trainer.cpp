#include "examples/language_model/trainer.h"

#include "examples/language_model/evaluation.h"
#include "examples/language_model/program_config.h"
#include "examples/language_model/writing.h"
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

namespace language_model {

using namespace booster;
using example::number;

namespace {

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::filesystem::path pretrained_folder(const Config& config) {
  return config.options("train").given<std::string>("pretrained").value_or("");
}

// Packed rows: attention stays within documents, unless the config says otherwise.
std::optional<int64_t> document_end(const Config& config, const Vocabulary& vocabulary,
                                    const Mesh& mesh) {
  const auto given = config.options("model").given<int64_t>("document_end");
  if (given || !config.get<bool>("data.pack") || config.get<bool>("data.across_documents"))
    return given;
  check(mesh.size("pipeline") == 1,
        "data.pack: later stages of a pipeline do not see where documents end; want "
        "data.across_documents=true, or no pipeline");
  return vocabulary.document_end;
}

Model start_model(const Config& config, const Vocabulary& vocabulary, const Mesh& mesh) {
  const std::filesystem::path folder = pretrained_folder(config);
  const std::optional<int64_t> end = document_end(config, vocabulary, mesh);
  if (folder.empty()) return make_model(end ? config.with("model.document_end", *end) : config);
  PretrainedOptions options;
  if (end) options.options["document_end"] = *end;
  Model model = from_pretrained(folder, options);
  if (const Device device = device_of(config); device != Device{}) model->to(device);
  return model;
}

void check_sizes(const Config& config, const Model& model, const Vocabulary& vocabulary) {
  const ModelSizes sizes = sizes_of(model);
  check(sizes.type != "bert",
        "model: an encoder, which writes no text; got bert, want gpt2 or llama");
  const auto tokens = config.get<int64_t>("data.tokens");
  check(tokens <= sizes.positions,
        "data.tokens: more than the model has positions; got {}, want at most {}", tokens,
        sizes.positions);
  if (!vocabulary.tokenizer) return;
  const int64_t wanted = vocabulary.tokenizer->vocabulary_size();
  check(sizes.vocabulary >= wanted,
        "model.vocab_size: the tokeniser has more tokens; got {}, want at least {}",
        sizes.vocabulary, wanted);
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
  vocabulary_ = open_vocabulary(config, pretrained_folder(config));
  const Model model = start_model(config, vocabulary_, booster_.plugin().mesh());
  const Optimizer optimizer = make_optimizer(config, model);
  check_sizes(config, model, vocabulary_);
  example::on_first_rank(world, "data", [&] { check_files(config); });
  example::on_first_rank(world, "train.output_dir", [&] { folder_.emplace(output_); });
  data_ = open_data(config, world, vocabulary_, output_);
  const DataLoader loader = booster_.prepare_dataloader(
      data_.train, {.batch_size = config.get<int64_t>("data.batch_size"),
                    .shuffle = true,
                    .drop_last = true,
                    .seed = seed,
                    .device = device_of(config)});
  const int64_t steps_per_epoch = example::steps_of_epoch(loader, accumulate_);
  check(steps_per_epoch > 0,
        "train: an epoch has no whole batch; got {} windows, want at least {} (data.batch_size x "
        "ranks)",
        data_.train->size(), loader.options().batch_size * world.size);
  total_steps_ = steps_per_epoch * config.get<int64_t>("train.epochs");
  if (const auto most = config.get<int64_t>("train.max_steps"); most > 0)
    total_steps_ = std::min(total_steps_, most);
  boosted_ = booster_.boost(model, optimizer, next_token_loss(), loader,
                            make_lr_scheduler(config, optimizer, total_steps_));
  // Weights are the same on all ranks; dropout differs between ranks with different data.
  seed_ranks(seed, booster_.plugin().mesh());
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
    finish();
    return first_rank() && files_->has_lost_metrics() ? 1 : 0;
  }
  if (first_rank())
    example::print(fmt::format("stopped by signal {} after step {}; the same command goes on\n",
                               signal_, step_));
  return 128 + static_cast<int>(signal_);
}

void Trainer::announce() const {
  if (!first_rank()) return;
  if (data_.made) warn("warning: no data.file; the run trains on stories that it makes up");
  example::print(fmt::format(
      "{}\nmodel: {}, {:.2f} M parameters; {} on {} ({} ranks), {} steps\n", data_.said,
      model_name(), static_cast<double>(boosted_->model->parameter_count()) / 1e6,
      booster_.precision().name(), booster_.plugin().name(), world_.size, total_steps_));
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
    tokens_ += batch->image.numel() * booster_.plugin().mesh().size("data");
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

// A stop signal ends the validation without a result.
void Trainer::validate() {
  const DataLoaderOptions& options = boosted_->dataloader.options();
  const auto result = likelihood_of(
      {booster_, boosted_->model, world_, options.device, options.batch_size}, *data_.validation);
  signal_ = example::agreed_stop_signal(world_, folder_, output_);
  if (!result) return;
  validated_step_ = step_;
  add_metrics({{"step", step_},
               {"val_loss", number(result->loss)},
               {"val_perplexity", number(std::exp(result->loss))}});
  if (first_rank())
    example::print(fmt::format("validation after step {}: loss {:.4f}, perplexity {:.2f}\n", step_,
                               result->loss, std::exp(result->loss)));
}

// Writes the trained model, and a text by it. Rank 0 writes the text alone with the model that it
// reads from the folder: generation needs no other rank then, whatever the plugin is.
void Trainer::finish() {
  const std::filesystem::path folder = output_ / "model";
  save_pretrained(boosted_->model, folder);
  example::on_first_rank(world_, "model", [&] {
    save_vocabulary(vocabulary_, folder);
    std::string text;
    const auto length = config_.get<int64_t>("train.sample_tokens");
    if (length > 0 && vocabulary_.tokenizer) text = sample(folder, length);
    example::print(fmt::format("{} steps; results in {}\n{}\n", step_, output_.string(), text));
  });
}

// Returns a text that begins with the first tokens of the validation data.
std::string Trainer::sample(const std::filesystem::path& folder, int64_t length) {
  const Tensor row = flatten(batch_of(*data_.validation, 0, 1).image);
  const std::vector<int64_t> first =
      narrow(row, 0, 0, std::min<int64_t>(16, row.numel())).to_vector<int64_t>();
  const Writer writer(folder, device_of(config_));
  return writer.write(
      {first.begin(), first.end()},
      {.max_new_tokens = length, .sample = true, .seed = config_.get<uint64_t>("train.seed")});
}

std::string Trainer::model_name() const {
  const std::filesystem::path folder = pretrained_folder(config_);
  return folder.empty() ? config_.get<std::string>("model.name") : folder.string();
}

void Trainer::add_metrics(const nlohmann::json& line) {
  if (first_rank()) files_->add(line);
}

void Trainer::check_weights() {
  const bool broken = !weights_are_finite(boosted_->model.unwrap());
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

}  // namespace language_model
