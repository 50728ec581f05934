// A layer whose weight is sharded over a group: the exchanges of its `linear` or `embedding`.
//
// Column parallel layers have some of the output features on each rank. Row parallel layers have
// some of the input features (Shoeybi et al., "Megatron-LM", 2019, section 3). Between the two,
// activations are parts, and dropout draws from this rank's own stream.
#pragma once

#include "core/autograd/layer_split.h"
#include "parallel/groups/group.h"
#include "plugins/parameters/rank_parts.h"

namespace booster {

// Random streams (set_random_stream) that a layer sets for the following code.
struct SplitStreams {
  uint64_t whole = 0;  // if its result has all features
  uint64_t part = 0;   // if its result is this rank's part
};

class RankSplit : public LayerSplit {
 public:
  // Makes the ranks of `group` shard `cut` features.
  RankSplit(Group group, Result result, int64_t cut, SplitStreams streams)
      : group_(std::move(group)), result_(result), parts_{cut, group_.size()}, streams_(streams) {}

  Result result() const override { return result_; }
  Tensor to_part(const Tensor& x) const override;
  Tensor from_part(const Tensor& y) const override;
  ElementRange rows() const override { return parts_.of(group_.rank()); }
  int64_t all_rows() const override { return parts_.numel; }
  Tensor sum_of_rows(const Tensor& y) const override;

 protected:
  // Convert the input for the parts of a layer, and the sum of their results.
  virtual Tensor for_parts(const Tensor& x) const;
  virtual Tensor sum_of_parts(const Tensor& y) const;
  // Converts a result with all features after the layer.
  virtual Tensor left_whole(const Tensor& y) const { return y; }
  const Group& group() const { return group_; }

 private:
  // Returns this rank's slice of x's last dimension if x has all features, else x.
  Tensor own_features(const Tensor& x) const;

  Group group_;
  Result result_;
  RankParts parts_;
  SplitStreams streams_;
};

// Makes the ranks sum their gradients of a parameter that works on a different part on each rank.
void sum_gradient_over(const Group& ranks, const Tensor& parameter);

}  // namespace booster
