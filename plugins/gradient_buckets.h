// Gradient buckets: gradients packed side by side, so that ranks exchange few large messages, the
// first while backward still computes the rest.
//
// Buckets fill in the reverse order of the parameters, about the order in which backward completes
// them. A bucket is one flat tensor of one dtype; each gradient is a window of it, so nothing is
// copied, unless the gradient is kept elsewhere. What is exchanged is the sum so far: averaging it
// again after more passes is right, since the mean of equal numbers is that number. Every rank must
// make the same calls; buckets are sent in their order.
#pragma once

#include "core/tensor/named_tensor.h"
#include "parallel/groups/group.h"

#include <vector>

namespace booster {

class GradientBuckets {
 public:
  // Packs more parameters. `cap_bytes` closes a bucket (the very first at `first_cap_bytes`, so
  // that sending starts early).
  void add(const Parameters& parameters, int64_t cap_bytes, int64_t first_cap_bytes);

  int64_t parameters() const { return static_cast<int64_t>(slots_.size()); }
  int64_t count() const { return static_cast<int64_t>(buckets_.size()); }
  // The place of a parameter's gradient.
  const Tensor& window(int64_t parameter) const { return slots_[parameter].window; }

  // --- a pass whose gradients are exchanged
  void begin();
  // The parameter's gradient is complete: a bucket that is full now is sent, in order.
  void mark_ready(int64_t parameter, const Group& group);
  // Sends the other buckets that were touched in the pass, or all, and waits for everything; throws
  // what went wrong.
  void finish(const Group& group, bool all);

  // --- gradients that are this rank's own
  void mark_local(int64_t parameter) { buckets_[slots_[parameter].bucket].local = true; }
  bool any_local() const;
  // Sends the buckets that hold some, or all, and waits.
  void exchange_local(const Group& group, bool all);

 private:
  struct Slot {
    Tensor parameter;
    int64_t bucket = 0;
    Tensor window;
    bool ready = false;
  };
  struct Bucket {
    Tensor flat;
    std::vector<int64_t> members;
    int64_t missing = 0;   // members that are not ready in this pass
    bool sent = false;     // in this pass
    bool local = false;    // holds gradients that only this rank has
    bool touched() const { return missing < static_cast<int64_t>(members.size()); }
  };

  void add_bucket(const Parameters& parameters, const std::vector<int64_t>& members, int64_t first);
  void send(Bucket& bucket, const Group& group);
  // Waits, and copies gradients back that are kept elsewhere.
  void receive();

  std::vector<Slot> slots_;  // by parameter
  std::vector<Bucket> buckets_;
  int64_t next_ = 0;            // buckets before it were sent in this pass
  std::vector<Work> works_;
  std::vector<int64_t> away_;  // sent parameters whose gradients are not in their windows
};

}  // namespace booster
