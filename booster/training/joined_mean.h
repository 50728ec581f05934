// JoinedMean: the loss of a step is one mean over all that counts, in all batches of the step on
// all ranks (loss_mean "rows"). Without it each batch is a mean of its own, and ranks average
// those.
//
// With L[i] the mean of batch i and n[i] its divisor (core/nn/criterion.h), gradients are those of
//
//   sum over i (n[i] L[i]) / sum over i (n[i])
//
// The sum of the divisors is known once all batches of the step are. Until then each loss is
// weighted by n[i] / unit, where `unit` is a power of two of about a batch's rows, so that
// gradients stay as large as ever. Before gradients are clipped or used, ranks add up their
// divisors, and each multiplies its gradients by what is left. For one thread.
#pragma once

#include "core/optim/optimizer.h"
#include "parallel/groups/group.h"

namespace booster {

class JoinedMean {
 public:
  // All ranks that train the model: also those that have the same rows, for they count alike.
  explicit JoinedMean(Group ranks) : ranks_(std::move(ranks)) {}

  // A program called the criterion, for a target of so many elements. Returns the loss; 0 where
  // nothing counts.
  Tensor note(const Tensor& loss, const Tensor& divisor, int64_t elements);
  // The loss of the one call that was noted, weighted. All ranks call it for the first time in a
  // training. Error if there was no call since the last time, or several.
  Tensor weighted(const Tensor& loss, double weight);

  // The same for a batch that a plugin may cut into parts; all ranks call it.
  void begin_batch(const Tensor& divisor, int64_t elements);
  // `share`: the part's number of rows relative to the batch's, by which the plugin weights it.
  Tensor weighted_part(const Tensor& loss, const Tensor& divisor, double share) const;
  // The mean over the batch, of what those parts add up to.
  Tensor end_batch(const Tensor& loss);

  // Gradients are those of all ranks: makes them the joined mean's. All ranks call it.
  void settle(const Optimizer& optimizer);
  // The gradients were thrown away.
  void forget();

 private:
  void count(const Tensor& divisor);
  void agree_on_unit(int64_t elements);

  Group ranks_;
  double unit_ = 0;          // the same on all ranks; 0: not agreed on yet
  Tensor noted_, batch_;     // divisors: of the call, of the batch in hand
  int64_t elements_ = 0;     // of the call
  int calls_ = 0;            // of the criterion, since the last loss
  Tensor pending_;           // sum of divisors of which gradients do not know yet
  bool is_settled_ = false;  // gradients in memory are the joined mean's
};

}  // namespace booster
