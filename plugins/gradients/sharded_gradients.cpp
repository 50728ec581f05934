#include "plugins/gradients/sharded_gradients.h"

#include "core/autograd/leaf_gradients.h"
#include "core/autograd/tape.h"
#include "core/optim/clip.h"
#include "core/tensor/memory/memory_report.h"
#include "parallel/operations/operation_tag.h"

#include <algorithm>
#include <map>
#include <utility>

namespace booster {

namespace {
// More would hold memory without being faster.
constexpr size_t most_under_way = 3;
}  // namespace

ShardedGradients::ShardedGradients(Group group, Group replicas, ShardedGradientOptions options)
    : group_(std::move(group)), replicas_(std::move(replicas)), options_(options) {}

void ShardedGradients::add(const Parameters& parameters) {
  // A bucket is one tensor and so has one dtype; one bucket is open for each dtype.
  struct Open {
    std::vector<int64_t> members;
    int64_t elements = 0;
  };
  const auto first = static_cast<int64_t>(slots_.size());
  slots_.resize(slots_.size() + parameters.size());
  std::map<DType, Open> open;
  for (int64_t i = static_cast<int64_t>(parameters.size()) - 1; i >= 0; --i) {
    auto& [members, elements] = open[grad_dtype(parameters[i].tensor)];
    if (elements >= options_.bucket_elements) {
      add_bucket(parameters, std::exchange(members, {}), first);
      elements = 0;
    }
    members.push_back(i);
    elements += parameters[i].tensor.numel();
  }
  for (const auto& [dtype, rest] : open) add_bucket(parameters, rest.members, first);
}

// `members` are indices into `parameters`, whose slots begin at `first`.
void ShardedGradients::add_bucket(const Parameters& parameters, const std::vector<int64_t>& members,
                                  int64_t first) {
  Bucket bucket{.packed = PackedParts(group_.size()), .members = {}};
  for (int64_t i : members) {
    const Tensor& parameter = parameters[i].tensor;
    slots_[first + i] = {.parameter = parameter,
                         .bucket = static_cast<int64_t>(buckets_.size()),
                         .place = bucket.packed.count()};
    bucket.packed.add(parameter.numel());
    bucket.members.push_back(first + i);
  }
  buckets_.push_back(std::move(bucket));
}

void ShardedGradients::forget_dropped() {
  for (Slot& slot : slots_)
    if (slot.local && !slot.parameter.grad().defined()) {
      slot.local = false;
      slot.kept = {};
    }
}

void ShardedGradients::begin(bool exchange) {
  exchanges_ = exchange;
  next_ = 0;
  forget_dropped();
  for (Slot& slot : slots_) {
    slot.ready = false;
    if (slot.local) continue;
    slot.kept = slot.parameter.grad();
    clear_grad(slot.parameter);
  }
  for (Bucket& bucket : buckets_) {
    bucket.missing = static_cast<int64_t>(bucket.members.size());
    bucket.sent = false;
  }
}

void ShardedGradients::mark_ready(int64_t parameter) {
  Slot& slot = slots_[parameter];
  Bucket& bucket = buckets_[slot.bucket];
  slot.local = true;
  if (!exchanges_) return;
  check(!bucket.sent, "sharded gradients: a gradient arrived after its bucket was sent");
  if (std::exchange(slot.ready, true)) return;
  --bucket.missing;
  if (!options_.overlap) return;
  while (next_ < buckets_.size() && buckets_[next_].missing == 0) send(buckets_[next_++]);
}

AbsentMembers ShardedGradients::absent_in(const Bucket& bucket) const {
  AbsentMembers absent;
  for (const int64_t i : bucket.members)
    if (!slots_[i].local) absent.add(i);
  return absent;
}

void ShardedGradients::send(Bucket& bucket) {
  const NoGradGuard no_grad;
  const OperationTag tag = tag_of(bucket).without(absent_in(bucket).hash());
  const MemoryScope memory(MemoryTag::gradients);
  const Tensor& any = slots_[bucket.members[0]].parameter;
  const TensorOptions options = {grad_dtype(any), any.device()};
  const Tensor all = empty({bucket.packed.elements()}, options);
  for (int64_t i : bucket.members) {
    const Slot& slot = slots_[i];
    bucket.packed.pack(all, slot.place, slot.local ? dense_grad(slot.parameter) : Tensor());
    // A non-local gradient is this rank's part of an earlier exchange.
    if (options_.free_whole && slot.local) clear_grad(slot.parameter);
  }
  bucket.summed = empty({bucket.packed.part()}, options);
  bucket.work = group_.reduce_scatter_async(bucket.summed, all, CollectiveOp::mean, tag);
  bucket.sent = true;
  const size_t index = index_of(bucket);
  if (index >= most_under_way) buckets_[index - most_under_way].work.wait();
}

void ShardedGradients::reduce_over_replicas(Bucket& bucket) {
  if (replicas_.size() == 1) return;
  bucket.work.wait();
  bucket.work = replicas_.all_reduce_async(bucket.summed, CollectiveOp::mean, tag_of(bucket));
}

void ShardedGradients::deliver(Bucket& bucket) {
  bucket.work.wait();
  bucket.work = {};
  for (int64_t i : bucket.members) {
    Slot& slot = slots_[i];
    if (!std::exchange(slot.local, false)) continue;
    const Tensor part = bucket.packed.own_place(bucket.summed, slot.place, group_.rank());
    if (slot.kept.defined()) slot.kept.add_(part);
    set_grad_part(slot.parameter, slot.kept.defined() ? std::exchange(slot.kept, {}) : part);
  }
  bucket.summed = {};
}

bool ShardedGradients::has_local(const Bucket& bucket) const {
  return std::ranges::any_of(bucket.members, [this](int64_t i) { return slots_[i].local; });
}

void ShardedGradients::end() {
  if (std::exchange(exchanges_, false)) send_and_deliver();
  for (Slot& slot : slots_)
    if (!slot.local && slot.kept.defined())
      set_grad_part(slot.parameter, std::exchange(slot.kept, {}));
}

void ShardedGradients::exchange_local() {
  forget_dropped();
  for (Bucket& bucket : buckets_) bucket.sent = false;
  send_and_deliver();
}

void ShardedGradients::send_and_deliver() {
  for (Bucket& bucket : buckets_)
    if (!bucket.sent && has_local(bucket)) send(bucket);
  for (Bucket& bucket : buckets_)
    if (bucket.sent) reduce_over_replicas(bucket);
  for (Bucket& bucket : buckets_)
    if (bucket.sent) deliver(bucket);
}

}  // namespace booster
