// JoinedMean: makes the loss of a step one mean over all counted rows, in all batches of the step
// on all ranks (loss_mean "rows"). Without it each batch has its own mean, and ranks average the
// means.
//
// With L[i] the mean of batch i and n[i] its divisor (core/nn/criterion.h), the loss of a step is
//
//   sum over i (n[i] L[i]) / sum over i (n[i])
//
// The sum of the divisors is known only after all batches of the step. Until then each loss has the
// weight n[i] / unit. `unit` is a power of two near a batch's number of rows, so that gradients
// keep their usual size. Before gradients are clipped or used, ranks add up their divisors, and
// each multiplies its gradients by the remaining factor. For one thread.
#pragma once

#include "core/optim/optimizer.h"
#include "parallel/groups/group.h"

namespace booster {

class JoinedMean {
 public:
  // `ranks` are all ranks that train the model. Ranks with the same rows are included, since all
  // rows then count equally often.
  explicit JoinedMean(Group ranks) : ranks_(std::move(ranks)) {}

  // Records a call of the criterion with a target of `elements` elements. Returns the loss, or 0 if
  // no row counts.
  Tensor note(const Tensor& loss, const Tensor& divisor, int64_t elements);
  // Returns the weighted loss of the one recorded call. Collective the first time in a training.
  // Throws unless the criterion was called exactly once since the last loss.
  Tensor weighted(const Tensor& loss, double weight);

  // Begins a batch that a plugin may cut into parts. For a whole batch use note() and weighted().
  // Collective.
  void begin_batch(const Tensor& divisor, int64_t elements);
  // Returns the loss of a part. `share` is the part's fraction of the batch's rows; the plugin uses
  // it as weight.
  Tensor weighted_part(const Tensor& loss, const Tensor& divisor, double share) const;
  // Returns the mean over the batch from `loss`, the weighted sum of its parts.
  Tensor end_batch(const Tensor& loss);

  // Turns the gradients, already averaged over all ranks, into the gradients of the joined mean.
  // Collective.
  void settle(const Optimizer& optimizer);
  // Forgets the sums, because the gradients were discarded.
  void forget();

 private:
  void count(const Tensor& divisor);
  void agree_on_unit(int64_t elements);

  Group ranks_;
  double unit_ = 0;          // the same on all ranks; 0: not agreed on yet
  Tensor noted_, batch_;     // divisors of the recorded call and of the current batch
  int64_t elements_ = 0;     // of the recorded call
  int calls_ = 0;            // of the criterion, since the last loss
  Tensor pending_;           // sum of divisors not yet applied to gradients
  bool is_settled_ = false;  // gradients in memory are the joined mean's
};

}  // namespace booster
