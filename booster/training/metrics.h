// Means over the samples of an evaluation. Each sample counts once, on any number of ranks.
//
//   MeanMetric accuracy(data), loss(data);               // data: a DataLoader of the evaluation
//   for (auto& [image, label] : data) {
//     const Tensor y = net(image);
//     accuracy.add(top_k_correct(y, label));
//     loss.add(cross_entropy(y, label, {.reduction = Reduction::none}));
//   }
//   print(accuracy.value(group), loss.value(group));     // all ranks call it
//
// If ranks have even shares, some samples appear twice so that all ranks have the same number of
// batches; MeanMetric ignores the repeats. With uneven shares (DataLoaderOptions::even_shares)
// every sample counts. For the thread that uses the loader.
#pragma once

#include "core/data/loader.h"
#include "parallel/groups/group.h"

namespace booster {

class MeanMetric {
 public:
  explicit MeanMetric(const DataLoader& loader) : loader_(loader) {}

  // Adds one value for each sample of the current batch: (n), of any dtype. Reads nothing from the
  // device. Throws for another shape, and for a batch with repeated samples and omitted bad images.
  void add(const Tensor& values);
  void reset();

  // Returns the mean over the samples of all ranks. Collective over `group`. Throws if no rank had
  // a sample.
  double value(const Group& group = Group()) const;

 private:
  DataLoader loader_;
  Tensor sum_;  // f64, no dimensions, on the device of the values; undefined: 0
  int64_t samples_ = 0;
};

// Returns 1 where the label is among the k largest logits of its row, else 0. logits (n, classes),
// labels (n) i64; result (n) f32. Among equal logits the first counts as larger. A row whose label
// has a nan logit counts as wrong.
Tensor top_k_correct(const Tensor& logits, const Tensor& labels, int64_t k = 1);

}  // namespace booster
