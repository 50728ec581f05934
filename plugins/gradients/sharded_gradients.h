// Gradients that each rank keeps a part of: packed in buckets, summed over the ranks by
// reduce-scatter while backward computes the rest.
//
// Between passes a parameter's gradient is either this rank's own of the whole parameter (after a
// pass without exchange), or the mean over all ranks of the part that this rank owns (RankParts),
// flat. What earlier passes left is put aside when a pass begins, since clips and changes of the
// loss scale reached this rank's part alone; only what a pass added is exchanged. Every rank must
// make the same calls; buckets are sent in their order.
#pragma once

#include "core/tensor/named_tensor.h"
#include "plugins/parameters/rank_parts.h"

#include <deque>
#include <vector>

namespace booster {

struct ShardedGradientOptions {
  int64_t bucket_elements = 12 << 20;
  bool overlap = true;      // buckets leave during backward, not after it
  bool free_whole = false;  // a whole gradient is given up when its bucket leaves
};

class ShardedGradients {
 public:
  // Parts are those of `group`; `replicas` have the same part, and the mean is over all of both.
  ShardedGradients(Group group, Group replicas, ShardedGradientOptions options);

  // The number that tells its messages from those of others on the group.
  void serve(uint32_t training) { training_ = training; }
  // Packs more parameters, about in the order in which backward completes them.
  void add(const Parameters& parameters);

  // A pass begins; with `exchange` its gradients go to all ranks.
  void begin(bool exchange);
  // The parameter's gradient is complete.
  void mark_ready(int64_t parameter);
  // Sends what was not sent, if the pass exchanges, and waits; throws what went wrong.
  void end();
  // Exchanges the gradients that are this rank's own.
  void exchange_local();

 private:
  struct Slot {
    Tensor parameter;
    int64_t bucket = 0;
    size_t place = 0;    // in the bucket
    bool ready = false;  // in this pass
    bool local = false;  // has a gradient of this rank alone
    Tensor kept = {};    // its part of what earlier passes left, put aside
  };
  struct Bucket {
    PackedParts packed;
    std::vector<int64_t> members;
    int64_t missing = 0;  // members that are not ready in this pass
    bool sent = false;    // in this pass
    Tensor summed = {};   // this rank's part of the sums, under way
    Work work = {};
  };

  void add_bucket(const Parameters& parameters, const std::vector<int64_t>& members, int64_t first);
  // Gradients that zero_grad dropped are nobody's.
  void forget_dropped();
  bool has_local(const Bucket& bucket) const;
  size_t index_of(const Bucket& bucket) const {
    return static_cast<size_t>(slots_[bucket.members[0]].bucket);
  }
  OperationTag tag_of(const Bucket& bucket) const {
    return OperationTag::of(OperationTag::bucket, slots_[bucket.members[0]].bucket, training_);
  }
  // A rank without a gradient takes no part of it, so all must lack the same ones.
  AbsentMembers absent_in(const Bucket& bucket) const;
  void send(Bucket& bucket);
  // Waits for the sums, and goes on to those of the replicas.
  void reduce_over_replicas(Bucket& bucket);
  // Waits for them and makes them gradients.
  void deliver(Bucket& bucket);
  void send_and_deliver();

  Group group_, replicas_;
  ShardedGradientOptions options_;
  std::vector<Slot> slots_;
  std::deque<Bucket> buckets_;
  uint32_t training_ = 0;
  size_t next_ = 0;  // buckets before it were sent in this pass
  bool exchanges_ = false;
};

}  // namespace booster
