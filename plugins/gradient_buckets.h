// Gradient buckets: gradients packed side by side, so that ranks exchange few large messages, the
// first while backward still computes the rest.
//
// Buckets fill in the reverse order of the parameters, about the order in which backward completes
// them. A bucket is one flat tensor of one dtype; each gradient is a window of it, so nothing is
// copied.
#pragma once

#include "core/tensor/named_tensor.h"
#include "parallel/groups/group.h"

#include <vector>

namespace booster {

class GradientBuckets {
 public:
  // `cap_bytes` closes a bucket (the first one at `first_cap_bytes`, so that sending starts early).
  GradientBuckets(const Parameters& parameters, int64_t cap_bytes, int64_t first_cap_bytes);

  int64_t count() const { return static_cast<int64_t>(buckets_.size()); }
  // The place of a parameter's gradient.
  Tensor window(int64_t parameter) const;

  // Begins a pass: no gradient is complete.
  void reset();
  // Notes that a parameter's gradient is complete; starts the averaging of every bucket that is now
  // full, in the order of buckets (the same on all ranks).
  void mark_ready(int64_t parameter, const Group& group);
  bool is_ready(int64_t parameter) const { return slots_[parameter].ready; }
  bool all_started() const { return started_ == count(); }
  // Waits for all that was started; throws what went wrong.
  void wait();

 private:
  struct Slot {
    int64_t bucket = 0;
    Tensor window;
    bool ready = false;
  };
  struct Bucket {
    Tensor flat;
    int64_t parameters = 0;
    int64_t missing = 0;
  };
  void add_bucket(const Parameters& parameters, const std::vector<int64_t>& members);

  std::vector<Slot> slots_;  // by parameter
  std::vector<Bucket> buckets_;
  int64_t started_ = 0;
  std::vector<Work> works_;
};

}  // namespace booster
