// When a trainer validates, and how it uses the results.
#include "examples/vit_caltech101/trainer.h"

#include "examples/training/agreement.h"
#include "examples/training/console.h"
#include "examples/training/metrics.h"

#include <fmt/format.h>

#include <cmath>

namespace example {

using namespace booster;

namespace {

double metric_of(const Validation::Result& result, const std::string& name) {
  if (name == "loss") return result.loss;
  return name == "top5" ? result.top5 : result.top1;
}

void add(nlohmann::json& line, const std::string& prefix, const Validation::Result& result) {
  line[prefix + "top1"] = number(result.top1);
  line[prefix + "top5"] = number(result.top5);
  line[prefix + "loss"] = number(result.loss);
}

std::string told(const Validation::Result& result) {
  return fmt::format("{:.2f} % (top 5 {:.2f} %), loss {:.4f}", 100 * result.top1, 100 * result.top5,
                     result.loss);
}

}  // namespace

// Returns how many equal parts of the epoch these batches complete. Returns 0 at the epoch's end,
// which validates anyway.
int64_t Trainer::part_of_epoch(int64_t batches) const {
  const int64_t parts = config_.get<int64_t>("train.validations_per_epoch");
  const int64_t part = batches * parts / boosted_->dataloader.size();
  return part < parts ? part : 0;
}

bool Trainer::validation_is_due() const {
  return part_of_epoch(boosted_->dataloader.state().batch) > validated_parts_;
}

std::optional<Validation::Result> Trainer::validate_averages() {
  const AveragedWeights weights = averaged_weights(boosted_->optimizer, *average_);
  return validation_->run(boosted_->model, time_);
}

Trainer::Ending Trainer::evaluate() {
  boosted_->model.eval();
  const auto result = validation_->run(boosted_->model, time_);
  const auto averaged = result && average_ ? validate_averages() : std::nullopt;
  boosted_->model.train();
  if (!result || (average_ && !averaged)) return agreed_ending();
  if (result->images == 0)
    fail_data("data: no image to validate on could be read; {}", first_bad_image());
  validated_step_ = step_;
  validated_parts_ = part_of_epoch(boosted_->dataloader.state().batch);
  last_top1_ = result->top1;
  record(*result, averaged);
  const Ending judged = judge(averaged.value_or(*result));
  if (const Ending early = agreed_ending(); early != Ending::none) return early;
  if (std::isfinite(result->loss)) return judged;
  const Ending early = say_non_finite(
      fmt::format("epoch {}: the loss of the validation is {}", epoch_, result->loss));
  return early == Ending::none ? judged : early;
}

void Trainer::record(const Validation::Result& result,
                     const std::optional<Validation::Result>& averaged) {
  nlohmann::json line = {{"step", step_}, {"epoch", epoch_}};
  add(line, "val_", result);
  if (averaged) add(line, "val_ema_", *averaged);
  if (first_rank()) {
    attempt([&] {
      report::write_worst_images(output_ / "worst_images.json", step_, result.worst,
                                 *datasets_.validation);
    });
    files_->add(line);
    files_->draw();
  }
  progress_->say(fmt::format("epoch {}: validation accuracy {}{}", epoch_, told(result),
                             averaged ? "; of the averages " + told(*averaged) : ""));
}

// Saves the training if it is the best so far. Ends it if no better one is expected.
Trainer::Ending Trainer::judge(const Validation::Result& result) {
  const auto metric = config_.get<std::string>("train.eval_metric");
  const bool best = best_.see(step_, metric_of(result, metric));
  if (best && config_.get<bool>("train.keep_best"))
    if (const Ending early = save_if_possible("best"); early != Ending::none) return early;
  return best_.stops() ? Ending::no_better : Ending::none;
}

}  // namespace example
