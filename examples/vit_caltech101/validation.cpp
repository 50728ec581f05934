#include "examples/vit_caltech101/validation.h"

#include "examples/training/agreement.h"
#include "examples/vit_caltech101/report/worst_rows.h"
#include "examples/training/stop_signal.h"

#include <cmath>
#include <span>

namespace example {

using namespace booster;

namespace {

DataLoaderOptions once_each(DataLoaderOptions options, const Mesh& mesh) {
  options.shuffle = options.drop_last = options.even_shares = false;
  options.rank = mesh.place("data");
  options.world_size = mesh.size("data");
  return options;
}

}  // namespace

// Sums over images, separate on each rank until they are joined.
class Validation::Tally {
 public:
  explicit Tally(int64_t classes)
      : classes_(classes), sums_(static_cast<size_t>(confusion + classes * classes)) {}

  // Logits (n, classes).
  void add(const Tensor& logits, const Tensor& labels) {
    const int64_t rows = logits.size(0), outputs = logits.size(1);
    const std::vector<float> values = logits.to_vector<float>();
    const std::vector<int64_t> truth = labels.to_vector<int64_t>();
    for (int64_t row = 0; row < rows; ++row) {
      const auto own = std::span(values).subspan(static_cast<size_t>(row * outputs),
                                                 static_cast<size_t>(outputs));
      count(own, truth[static_cast<size_t>(row)]);
      worst_.see(own, truth[static_cast<size_t>(row)]);
    }
    sums_[loss] += cross_entropy(logits, labels).item() * static_cast<double>(rows);
  }

  Result joined(const Group& group, const DataLoader& loader) {
    group.all_reduce(sums_);
    const double n = sums_[images];
    const auto mean = [&](double sum) { return n > 0 ? sum / n : 0; };
    return {static_cast<int64_t>(n),
            mean(sums_[first]),
            mean(sums_[among_five]),
            mean(sums_[loss]),
            {sums_.begin() + confusion, sums_.end()},
            worst_.joined(group, loader)};
  }

 private:
  enum { images, first, among_five, loss, confusion };  // indices into sums_

  // A nan logit counts as larger than any number, as in argmax; if it is the label's, the image is
  // wrong.
  void count(std::span<const float> logits, int64_t label) {
    const float own = logits[static_cast<size_t>(label)];
    int64_t before = 0, best = 0;
    for (int64_t i = 0; i < static_cast<int64_t>(logits.size()); ++i) {
      const float other = logits[static_cast<size_t>(i)];
      const float largest = logits[static_cast<size_t>(best)];
      if (i != label && (!(other <= own) || (other == own && i < label))) ++before;
      if (!std::isnan(largest) && !(other <= largest)) best = i;
    }
    ++sums_[images];
    if (before < 1 && !std::isnan(own)) ++sums_[first];
    if (before < 5 && !std::isnan(own)) ++sums_[among_five];
    if (best < classes_) ++sums_[static_cast<size_t>(confusion + label * classes_ + best)];
  }

  int64_t classes_;
  std::vector<double> sums_;
  WorstRows worst_;
};

Validation::Validation(std::shared_ptr<const Dataset> images, DataLoaderOptions options,
                       const World& world, const Plugin& plugin, int64_t classes)
    : world_(world),
      shares_(plugin.mesh().group("data")),
      classes_(classes),
      gathers_(plugin.layout().zero_stage == 3),
      loader_(std::move(images), once_each(std::move(options), plugin.mesh())) {}

std::optional<Validation::Result> Validation::run(const BoostedModel& model, TimeAccount& time) {
  const NoGradGuard no_grad;
  const auto waiting = time.spend_on(Activity::data);
  Tally tally(classes_);
  // Ranks may have different numbers of batches; all continue while one has a batch. If the model
  // needs other ranks' parameters, a rank without a batch runs it on a dummy image.
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
      tally.add(model(batch->image), batch->label);
    }
    ++batch;
  }
  return tally.joined(shares_, loader_);
}

}  // namespace example
