// Means over the samples of an evaluation, each counted once on any number of ranks.
//
//   MeanMetric accuracy(data), loss(data);               // data: a DataLoader of the evaluation
//   for (auto& [image, label] : data) {
//     const Tensor y = net(image);
//     accuracy.add(top_k_correct(y, label));
//     loss.add(cross_entropy(y, label, {.reduction = Reduction::none}));
//   }
//   print(accuracy.value(group), loss.value(group));     // all ranks call it
//
// Ranks whose shares are even see some samples twice, so that all have equally many batches; those
// are left out here. Shares that are not (DataLoaderOptions::even_shares) are counted as they come.
// For the thread that has the loader.
#pragma once

#include "core/data/loader.h"
#include "parallel/groups/group.h"

namespace booster {

class MeanMetric {
 public:
  explicit MeanMetric(const DataLoader& loader) : loader_(loader) {}

  // A number for each sample of the batch in hand: (n), of any dtype. Reads nothing from the
  // device. Errors: another shape; a batch from which bad images were left out, where some count
  // twice.
  void add(const Tensor& values);
  void reset();

  // Over the samples of all ranks. All ranks of the group call it. Error if nobody had a sample.
  double value(const Group& group = Group()) const;

 private:
  DataLoader loader_;
  Tensor sum_;  // f64, no dimensions, on the device of the values; undefined: 0
  int64_t samples_ = 0;
};

// 1 where the label is among the k largest logits of its row, else 0: logits (n, classes), labels
// (n) i64; f32 (n). Of equal logits the first counts as larger; a row whose own logit is nan is
// wrong.
Tensor top_k_correct(const Tensor& logits, const Tensor& labels, int64_t k = 1);

}  // namespace booster
