// A layer whose weight is cut over the ranks of a group: what `linear` and `embedding` exchange.
//
// Column parallel layers have some of the output features on each rank, row parallel ones some of
// the input features (Shoeybi et al., "Megatron-LM", 2019, section 3). Between the two, activations
// are parts, and dropout draws from a stream of this rank's own.
#pragma once

#include "core/autograd/layer_split.h"
#include "parallel/groups/group.h"
#include "plugins/parameters/rank_parts.h"

namespace booster {

// Streams of random numbers (set_random_stream) that a layer leaves behind.
struct SplitStreams {
  uint64_t whole = 0;  // where its result is all features
  uint64_t part = 0;   // where it is this rank's
};

class RankSplit : public LayerSplit {
 public:
  // `cut` are the features, out of all, of which the ranks of `group` have parts.
  RankSplit(Group group, Result result, int64_t cut, SplitStreams streams)
      : group_(std::move(group)), result_(result), parts_{cut, group_.size()}, streams_(streams) {}

  Result result() const override { return result_; }
  Tensor to_part(const Tensor& x) const override;
  Tensor from_part(const Tensor& y) const override;
  ElementRange rows() const override { return parts_.of(group_.rank()); }
  int64_t all_rows() const override { return parts_.numel; }
  Tensor sum_of_rows(const Tensor& y) const override;

 protected:
  // What all parts of a layer read, and what the sum of their results becomes.
  virtual Tensor for_parts(const Tensor& x) const;
  virtual Tensor sum_of_parts(const Tensor& y) const;
  // What a result with all features becomes behind the layer.
  virtual Tensor left_whole(const Tensor& y) const { return y; }
  const Group& group() const { return group_; }

 private:
  // The last features of x that are this rank's, where x has all.
  Tensor own_features(const Tensor& x) const;

  Group group_;
  Result result_;
  RankParts parts_;
  SplitStreams streams_;
};

// From now on a parameter that works on another part on each rank gets the sum of their gradients.
void sum_gradient_over(const Group& ranks, const Tensor& parameter);

}  // namespace booster
