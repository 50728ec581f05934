// Gradient buckets: gradients packed side by side, so that ranks exchange few large messages, the
// first while backward still computes the rest.
//
// Buckets fill in the reverse order of the parameters, about the order in which backward completes
// them, or in an order that was seen. A bucket is one flat tensor of one dtype; each gradient is a
// window of it, so nothing is copied, unless the gradient is kept elsewhere. What is exchanged is
// the sum so far: averaging it again after more passes is right, since the mean of equal numbers is
// that number. Every rank must make the same calls; buckets are sent in their order.
//
// With `sent_as` wider gradients travel in 16 bits: each rank's numbers are rounded once, summed in
// f32, and the mean is rounded once more, so all ranks get the same bits. A number beyond what the
// dtype holds becomes infinite, on all ranks. A sum that is averaged again is rounded again: that
// changes nothing where the sum is as it was, and costs half a unit in its last place where a later
// pass added to it, as a rounded contribution would.
#pragma once

#include "core/tensor/named_tensor.h"
#include "parallel/groups/group.h"

#include <optional>
#include <vector>

namespace booster {

struct GradientBucketOptions {
  int64_t cap_bytes = 25 << 20;    // closes a bucket; smaller ones where it would close few
  bool views = true;               // gradients live in the buckets; false: copied there
  std::optional<DType> sent_as{};  // f16 or bf16
  bool may_differ = false;         // ranks may have gradients of different parameters in a pass
};

class GradientBuckets {
 public:
  GradientBuckets(Group group, GradientBucketOptions options);

  // The number that tells its messages from those of others on the group.
  void serve(uint32_t training) { training_ = training; }
  // Packs more parameters.
  void add(const Parameters& parameters);
  // Packs all anew: `order` lists those that are exchanged, as backward completes them, out of all;
  // those whose gradients come on this rank are `awaited`. Gradients that exist keep their numbers.
  void pack_again(const std::vector<int64_t>& order, const std::vector<bool>& awaited);

  int64_t parameters() const { return static_cast<int64_t>(slots_.size()); }
  int64_t count() const { return static_cast<int64_t>(buckets_.size()); }
  // The place of a parameter's gradient; undefined where the parameter is in no bucket.
  const Tensor& window(int64_t parameter) const { return slots_[parameter].window; }

  // --- a pass whose gradients are exchanged
  void begin();
  // The parameter's gradient is complete: a bucket that is full now is sent, in order.
  void mark_ready(int64_t parameter);
  // Sends the other buckets that were touched in the pass, or all, and waits for everything; throws
  // what went wrong.
  void finish(bool all);

  // --- gradients that are this rank's own
  void mark_local(int64_t parameter) { slots_[parameter].local = true; }
  bool any_local() const;
  // Sends the buckets that hold some, or all, and waits.
  void exchange_local(bool all);

 private:
  static constexpr int64_t in_none = -1;
  struct Slot {
    Tensor parameter;
    int64_t bucket = in_none;
    Tensor window = {};
    bool awaited = true;  // its gradient comes in a pass, on this rank
    bool ready = false;   // in this pass
    bool local = false;   // its gradient is this rank's own
  };
  struct Bucket {
    Tensor flat;
    std::vector<int64_t> members;
    int64_t missing = 0;  // awaited members that are not ready in this pass
    bool sent = false;    // in this pass
  };
  // A tensor that becomes the mean over the ranks, and what travels for it: itself, or a copy.
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
  // Waits, and copies what travelled to where it belongs.
  void receive();

  Group group_;
  GradientBucketOptions options_;
  std::vector<Slot> slots_;  // by parameter
  std::vector<Bucket> buckets_;
  uint32_t training_ = 0;
  int64_t next_ = 0;  // buckets before it were sent in this pass
  std::vector<Message> messages_;
  std::vector<int64_t> away_;  // sent parameters whose gradients are not in their windows
};

}  // namespace booster
