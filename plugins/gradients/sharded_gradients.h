// Gradients sharded over the ranks: packed in buckets and summed by reduce-scatter while backward
// computes the rest.
//
// Between passes a parameter's gradient is in one of two states. After a pass without exchange it
// is this rank's gradient of the whole parameter. Otherwise it is flat: the mean over all ranks for
// the part that this rank owns (RankParts). When a pass begins it sets earlier results aside, since
// clips and changes of the loss scale reached only this rank's part. It exchanges only its own
// contribution. Every rank must make the same calls; buckets are sent in order.
#pragma once

#include "core/tensor/tensor.h"
#include "parallel/operations/operation_tag.h"
#include "plugins/parameters/rank_parts.h"

#include <deque>
#include <vector>

namespace booster {

struct ShardedGradientOptions {
  int64_t bucket_elements = 12 << 20;
  bool overlap = true;      // send buckets during backward, not after it
  bool free_whole = false;  // free a whole gradient when its bucket is sent
};

class ShardedGradients {
 public:
  // Parts are sharded over `group`; `replicas` have the same part. The mean is over both.
  ShardedGradients(Group group, Group replicas, ShardedGradientOptions options);

  // Sets the number that tags its messages on the group.
  void serve(uint32_t training) { training_ = training; }
  // Packs more parameters, last first, roughly as backward completes them.
  void add(const Parameters& parameters);

  // Begins a pass; with `exchange` all ranks exchange its gradients.
  void begin(bool exchange);
  // Marks the parameter's gradient as complete.
  void mark_ready(int64_t parameter);
  // Ends the pass. If it exchanges, sends the rest and waits; throws any error of the exchange.
  void end();
  // Exchanges the gradients that are local to this rank.
  void exchange_local();

 private:
  struct Slot {
    Tensor parameter;
    int64_t bucket = 0;
    size_t place = 0;    // in the bucket
    bool ready = false;  // in this pass
    bool local = false;  // its gradient is local to this rank
    Tensor kept = {};    // its part from earlier passes, set aside
  };
  struct Bucket {
    PackedParts packed;
    std::vector<int64_t> members;
    int64_t missing = 0;  // members that are not ready in this pass
    bool sent = false;    // in this pass
    Tensor summed = {};   // this rank's part of the sums, in progress
    Work work = {};
  };

  void add_bucket(const Parameters& parameters, const std::vector<int64_t>& members, int64_t first);
  // Clears the local state of gradients that zero_grad dropped.
  void forget_dropped();
  bool has_local(const Bucket& bucket) const;
  size_t index_of(const Bucket& bucket) const {
    return static_cast<size_t>(slots_[bucket.members[0]].bucket);
  }
  OperationTag tag_of(const Bucket& bucket) const {
    return OperationTag::of(OperationTag::bucket, slots_[bucket.members[0]].bucket, training_);
  }
  // Returns the members without a local gradient. A rank without a gradient receives no part of it,
  // so all ranks must lack the same gradients.
  AbsentMembers absent_in(const Bucket& bucket) const;
  void send(Bucket& bucket);
  // Waits for the sums, and starts the sums over the replicas.
  void reduce_over_replicas(Bucket& bucket);
  // Waits for the sums and makes them gradients.
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
