#include "examples/vit_caltech101/validation.h"

#include "examples/vit_caltech101/agreement.h"
#include "examples/vit_caltech101/stop_signal.h"

namespace example {

using namespace booster;

namespace {

DataLoaderOptions once_each(DataLoaderOptions options, const Mesh& mesh) {
  options.shuffle = options.drop_last = options.even_shares = false;
  options.rank = mesh.place("data");
  options.world_size = mesh.size("data");
  return options;
}

// Number of images, number of right ones, sum of losses.
void add(std::vector<double>& totals, const BoostedModel& model, const Batch& batch) {
  const Tensor logits = model(batch.image);
  const auto n = static_cast<double>(batch.image.size(0));
  totals[0] += n;
  totals[1] += sum(equal(argmax(logits, -1), batch.label)).item();
  totals[2] += cross_entropy(logits, batch.label).item() * n;
}

}  // namespace

Validation::Validation(std::shared_ptr<const Dataset> images, DataLoaderOptions options,
                       const World& world, const Plugin& plugin)
    : world_(world),
      shares_(plugin.mesh().group("data")),
      gathers_(plugin.layout().zero_stage == 3),
      loader_(std::move(images), once_each(std::move(options), plugin.mesh())) {}

std::optional<Validation::Result> Validation::run(const BoostedModel& model, TimeAccount& time) {
  const NoGradGuard no_grad;
  const auto waiting = time.spend_on(Activity::data);
  std::vector<double> totals(3);
  // Ranks may have different numbers of batches: all go on while one of them has one, and where the
  // parameters of others are needed, with an image that counts for nothing.
  for (auto batch = loader_.begin();;) {
    const bool has_batch = batch != loader_.end();
    std::vector<int64_t> told = {has_batch, stop_signal(), 0, 0, 0};
    for (int i = 1; has_batch && i < 4; ++i) told[1 + i] = batch->image.size(i);
    const auto any = largest(world_, told);
    if (any[1] != 0) return std::nullopt;
    if (any[0] == 0) break;
    if (!has_batch) {
      if (gathers_) model(zeros({1, any[2], any[3], any[4]}));
      continue;
    }
    {
      const auto computing = time.spend_on(Activity::validation);
      add(totals, model, *batch);
    }
    ++batch;
  }
  shares_.all_reduce(totals);
  const double n = totals[0];
  return Result{static_cast<int64_t>(n), n > 0 ? totals[1] / n : 0, n > 0 ? totals[2] / n : 0};
}

}  // namespace example
