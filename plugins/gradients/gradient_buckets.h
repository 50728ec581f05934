// Gradient buckets: gradients packed side by side, so that ranks exchange a few large messages, the
// first while backward still computes the rest.
//
// Buckets fill in the reverse order of the parameters, roughly the order in which backward
// completes them, or in an observed order. A bucket is one flat tensor of one dtype. Each gradient
// is a window of it, so nothing is copied, unless the gradient is kept elsewhere. Ranks exchange
// the sum so far. Averaging it again after more passes is correct, since the mean of equal values
// is that value. Every rank must make the same calls; buckets are sent in order.
//
// With `sent_as`, wider gradients are sent in 16 bits. Each rank's values are rounded once and
// summed in f32; the mean is rounded once more, so all ranks get the same bits. A value beyond the
// dtype's range becomes infinite, on all ranks. A sum that is averaged again is rounded again. That
// changes nothing if the sum is unchanged. If a later pass added to it, the error is half a unit in
// its last place, as for any rounded contribution.
#pragma once

#include "core/tensor/tensor.h"
#include "parallel/groups/group.h"
#include "parallel/operations/operation_tag.h"

#include <optional>
#include <vector>

namespace booster {

struct GradientBucketOptions {
  int64_t cap_bytes = 25 << 20;    // closes a bucket; smaller ones if there would be few
  bool views = true;               // gradients are in the buckets; false: copied there
  std::optional<DType> sent_as{};  // f16 or bf16
  bool may_differ = false;         // in a pass, ranks may have gradients of different parameters
};

class GradientBuckets {
 public:
  GradientBuckets(Group group, GradientBucketOptions options);

  // Sets the number that tags its messages on the group.
  void serve(uint32_t training) { training_ = training; }
  // Packs more parameters.
  void add(const Parameters& parameters);
  // Packs everything anew. `order` lists the exchanged parameters, in the order in which backward
  // completes them. `awaited` marks the parameters that get gradients on this rank. Existing
  // gradients keep their values.
  void pack_again(const std::vector<int64_t>& order, const std::vector<bool>& awaited);

  int64_t parameters() const { return static_cast<int64_t>(slots_.size()); }
  int64_t count() const { return static_cast<int64_t>(buckets_.size()); }
  // Returns the window of a parameter's gradient; undefined if the parameter is in no bucket.
  const Tensor& window(int64_t parameter) const { return slots_[parameter].window; }

  // --- a pass that exchanges its gradients
  void begin();
  // Marks the parameter's gradient as complete, and sends full buckets, in order.
  void mark_ready(int64_t parameter);
  // Sends the other buckets that the pass touched, or all of them, and waits. Throws any error of
  // the exchange.
  void finish(bool all);

  // --- gradients local to this rank
  void mark_local(int64_t parameter) { slots_[parameter].local = true; }
  bool any_local() const;
  // Sends the buckets that hold local gradients, or all of them, and waits.
  void exchange_local(bool all);

 private:
  static constexpr int64_t in_none = -1;
  struct Slot {
    Tensor parameter;
    int64_t bucket = in_none;
    Tensor window = {};
    bool awaited = true;  // a pass completes its gradient on this rank
    bool ready = false;   // in this pass
    bool local = false;   // its gradient is local to this rank
  };
  struct Bucket {
    Tensor flat;
    std::vector<int64_t> members;
    int64_t missing = 0;  // awaited members that are not ready in this pass
    bool sent = false;    // in this pass
  };
  // A tensor that becomes the mean over the ranks, and the tensor that is sent: itself or a copy.
  struct Message {
    Tensor target, sent;
    Work work;
  };

  void pack(const std::vector<int64_t>& order);
  void add_bucket(const std::vector<int64_t>& members);
  int64_t bytes_of(int64_t parameter) const;
  bool is_touched(const Bucket& bucket) const;
  bool has_local(const Bucket& bucket) const;
  void send(Bucket& bucket);
  OperationTag tag_of(const Bucket& bucket) const;
  void send_mean(const Tensor& target, OperationTag tag);
  // Waits, and copies the received means to their targets.
  void receive();

  Group group_;
  GradientBucketOptions options_;
  std::vector<Slot> slots_;  // by parameter
  std::vector<Bucket> buckets_;
  uint32_t training_ = 0;
  int64_t next_ = 0;  // buckets before it were sent in this pass
  std::vector<Message> messages_;
  std::vector<int64_t> away_;  // sent parameters with gradients outside their windows
};

}  // namespace booster
