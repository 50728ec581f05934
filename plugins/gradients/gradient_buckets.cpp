#include "plugins/gradients/gradient_buckets.h"

#include "core/autograd/leaf_gradients.h"
#include "core/autograd/tape.h"
#include "parallel/operations/operation_tag.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace booster {

namespace {

constexpr int64_t first_bytes = 1 << 20;

// The last bucket cannot be sent before backward ends, so it should be a small share of the total.
// However, a message below one MiB costs more than it saves.
constexpr int64_t least_messages = 8;

}  // namespace

GradientBuckets::GradientBuckets(Group group, GradientBucketOptions options)
    : group_(std::move(group)), options_(options) {}

int64_t GradientBuckets::bytes_of(int64_t parameter) const {
  const Tensor& tensor = slots_[parameter].parameter;
  return tensor.numel() * size_of(grad_dtype(tensor));
}

void GradientBuckets::add(const Parameters& parameters) {
  std::vector<int64_t> order(parameters.size());
  std::iota(order.rbegin(), order.rend(), this->parameters());
  for (const NamedTensor& parameter : parameters) slots_.push_back({parameter.tensor});
  pack(order);
}

void GradientBuckets::pack(const std::vector<int64_t>& order) {
  // A bucket is one tensor and so has one dtype; one bucket is open for each dtype.
  struct Open {
    std::vector<int64_t> members;
    int64_t bytes = 0;
  };
  int64_t total = 0;
  for (const int64_t i : order) total += bytes_of(i);
  const int64_t cap = std::min(options_.cap_bytes, std::max(total / least_messages, first_bytes)),
                first_cap = std::min(cap, first_bytes);
  std::map<DType, Open> open;
  for (const int64_t i : order) {
    auto& [members, bytes] = open[grad_dtype(slots_[i].parameter)];
    if (bytes >= (buckets_.empty() ? first_cap : cap)) {
      add_bucket(members);
      members.clear();
      bytes = 0;
    }
    members.push_back(i);
    bytes += bytes_of(i);
  }
  for (const auto& [dtype, rest] : open) add_bucket(rest.members);
}

void GradientBuckets::add_bucket(const std::vector<int64_t>& members) {
  int64_t elements = 0;
  for (const int64_t i : members) elements += slots_[i].parameter.numel();
  const Tensor& any = slots_[members[0]].parameter;
  const Tensor flat = zeros({elements}, {grad_dtype(any), any.device()});
  int64_t at = 0;
  for (const int64_t i : members) {
    Slot& slot = slots_[i];
    const Tensor run = untracked::narrow(flat, 0, at, slot.parameter.numel());
    slot.bucket = count();
    slot.window = untracked::reshape(run, slot.parameter.shape());
    if (options_.views) set_grad_buffer(slot.parameter, slot.window);
    at += slot.parameter.numel();
  }
  buckets_.push_back({flat, members});
}

void GradientBuckets::pack_again(const std::vector<int64_t>& order,
                                 const std::vector<bool>& awaited) {
  buckets_.clear();
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    slot.bucket = in_none;
    slot.window = {};
    slot.awaited = awaited[i];
    if (options_.views) set_grad_buffer(slot.parameter, {});
  }
  pack(order);
  if (!options_.views) return;
  for (const int64_t i : order) {
    const Slot& slot = slots_[i];
    const Tensor grad = slot.parameter.grad();
    if (!grad.defined() || grad.dtype() != slot.window.dtype()) continue;
    Tensor(slot.window).copy_(grad);
    slot.parameter.set_grad(slot.window);
  }
}

void GradientBuckets::begin() {
  for (Bucket& bucket : buckets_) {
    bucket.missing = 0;
    bucket.sent = false;
  }
  for (Slot& slot : slots_) {
    slot.ready = false;
    if (slot.bucket != in_none && slot.awaited) ++buckets_[slot.bucket].missing;
  }
  next_ = 0;
  messages_.clear();
  away_.clear();
}

void GradientBuckets::mark_ready(int64_t parameter) {
  Slot& slot = slots_[parameter];
  Bucket& bucket = buckets_[slot.bucket];
  check(!bucket.sent, "gradient buckets: a gradient arrived after its bucket was sent");
  if (std::exchange(slot.ready, true)) return;
  --bucket.missing;
  while (next_ < count() && buckets_[next_].missing == 0) send(buckets_[next_++]);
}

void GradientBuckets::send_mean(const Tensor& target, OperationTag tag) {
  const bool narrows = options_.sent_as && !is_16_bit(target.dtype());
  const Tensor sent =
      narrows ? untracked::cast(target, *options_.sent_as) : untracked::contiguous(target);
  messages_.push_back({target, sent, group_.all_reduce_async(sent, CollectiveOp::mean, tag)});
}

// Tags a bucket with its absent members. A rank without a gradient cannot detect that others have
// one. So all must lack the same ones, unless `may_differ` handles that later.
OperationTag GradientBuckets::tag_of(const Bucket& bucket) const {
  const int64_t number = &bucket - buckets_.data();
  const auto tag = OperationTag::of(OperationTag::bucket, number, training_);
  if (options_.may_differ) return tag;
  AbsentMembers absent;
  for (const int64_t i : bucket.members)
    if (!slots_[i].parameter.grad().defined()) absent.add(i);
  return tag.without(absent.hash());
}

// Sends a bucket. Absent gradients count as 0 in their windows, since another rank may have one.
void GradientBuckets::send(Bucket& bucket) {
  const NoGradGuard no_grad;
  const OperationTag tag = tag_of(bucket);
  for (const int64_t i : bucket.members) {
    Slot& slot = slots_[i];
    slot.local = false;
    const Tensor grad = slot.parameter.grad();
    if (grad.defined() && grad.same_body(slot.window)) continue;
    if (!grad.defined()) {
      slot.window.zero_();
    } else if (grad.dtype() == slot.window.dtype()) {
      slot.window.copy_(grad);
      away_.push_back(i);
    } else {  // unscaling made it wider, so it is sent separately
      send_mean(grad, tag);
    }
  }
  send_mean(bucket.flat, tag);
  bucket.sent = true;
}

void GradientBuckets::receive() {
  for (Message& message : messages_) {
    message.work.wait();
    if (!message.sent.same_body(message.target)) message.target.copy_(message.sent);
  }
  messages_.clear();
  for (const int64_t i : away_) slots_[i].parameter.grad().copy_(slots_[i].window);
  away_.clear();
}

bool GradientBuckets::is_touched(const Bucket& bucket) const {
  return std::ranges::any_of(bucket.members, [this](int64_t i) { return slots_[i].ready; });
}

bool GradientBuckets::has_local(const Bucket& bucket) const {
  return std::ranges::any_of(bucket.members, [this](int64_t i) { return slots_[i].local; });
}

void GradientBuckets::finish(bool all) {
  for (Bucket& bucket : buckets_)
    if (!bucket.sent && (all || is_touched(bucket))) send(bucket);
  receive();
}

bool GradientBuckets::any_local() const {
  return std::ranges::any_of(slots_, [](const Slot& slot) { return slot.local; });
}

void GradientBuckets::exchange_local(bool all) {
  for (Bucket& bucket : buckets_)
    if (all || has_local(bucket)) send(bucket);
  receive();
}

}  // namespace booster
