#include "plugins/gradient_buckets.h"

#include "core/autograd/tape.h"

#include <algorithm>
#include <map>

namespace booster {

void GradientBuckets::add(const Parameters& parameters, int64_t cap_bytes,
                          int64_t first_cap_bytes) {
  // A bucket is one tensor, so it holds one dtype; one is open for each.
  struct Open {
    std::vector<int64_t> members;
    int64_t bytes = 0;
  };
  const int64_t first = this->parameters();
  slots_.resize(slots_.size() + parameters.size());
  std::map<DType, Open> open;
  for (int64_t i = static_cast<int64_t>(parameters.size()) - 1; i >= 0; --i) {
    const Tensor& parameter = parameters[i].tensor;
    auto& [members, bytes] = open[grad_dtype(parameter)];
    if (bytes >= (buckets_.empty() ? first_cap_bytes : cap_bytes)) {
      add_bucket(parameters, members, first);
      members.clear();
      bytes = 0;
    }
    members.push_back(i);
    bytes += parameter.numel() * size_of(grad_dtype(parameter));
  }
  for (const auto& [dtype, rest] : open) add_bucket(parameters, rest.members, first);
}

// `members` count within `parameters`, whose slots begin at `first`.
void GradientBuckets::add_bucket(const Parameters& parameters, const std::vector<int64_t>& members,
                                 int64_t first) {
  int64_t elements = 0;
  for (int64_t i : members) elements += parameters[i].tensor.numel();
  const Tensor& any = parameters[members[0]].tensor;
  Bucket bucket;
  bucket.flat = zeros({elements}, {grad_dtype(any), any.device()});
  int64_t at = 0;
  for (int64_t i : members) {
    const Tensor& parameter = parameters[i].tensor;
    const Tensor run = untracked::narrow(bucket.flat, 0, at, parameter.numel());
    slots_[first + i] = {parameter, count(), untracked::reshape(run, parameter.shape())};
    bucket.members.push_back(first + i);
    at += parameter.numel();
  }
  bucket.missing = static_cast<int64_t>(bucket.members.size());
  buckets_.push_back(std::move(bucket));
}

void GradientBuckets::begin() {
  for (Slot& slot : slots_) slot.ready = false;
  for (Bucket& bucket : buckets_) {
    bucket.missing = static_cast<int64_t>(bucket.members.size());
    bucket.sent = false;
  }
  next_ = 0;
  works_.clear();
  away_.clear();
}

void GradientBuckets::mark_ready(int64_t parameter, const Group& group) {
  Slot& slot = slots_[parameter];
  Bucket& bucket = buckets_[slot.bucket];
  check(!bucket.sent, "gradient buckets: a gradient arrived after its bucket was sent");
  if (slot.ready) return;
  slot.ready = true;
  --bucket.missing;
  while (next_ < count() && buckets_[next_].missing == 0) send(buckets_[next_++], group);
}

// Windows of gradients that are absent count as 0: another rank may have one.
void GradientBuckets::send(Bucket& bucket, const Group& group) {
  for (int64_t i : bucket.members) {
    const Slot& slot = slots_[i];
    const Tensor grad = slot.parameter.grad();
    if (grad.defined() && grad.same_body(slot.window)) continue;
    if (!grad.defined()) {
      Tensor(slot.window).zero_();
    } else if (grad.dtype() == slot.window.dtype()) {
      Tensor(slot.window).copy_(grad);
      away_.push_back(i);
    } else {  // made wider when it was unscaled: it goes by itself, with all its digits
      works_.push_back(group.all_reduce_async(untracked::contiguous(grad), CollectiveOp::mean));
    }
  }
  works_.push_back(group.all_reduce_async(bucket.flat, CollectiveOp::mean));
  bucket.sent = true;
  bucket.local = false;
}

void GradientBuckets::receive() {
  for (const Work& work : works_) work.wait();
  works_.clear();
  for (int64_t i : away_) slots_[i].parameter.grad().copy_(slots_[i].window);
  away_.clear();
}

void GradientBuckets::finish(const Group& group, bool all) {
  for (Bucket& bucket : buckets_)
    if (!bucket.sent && (all || bucket.touched())) send(bucket, group);
  receive();
}

bool GradientBuckets::any_local() const {
  return std::ranges::any_of(buckets_, [](const Bucket& bucket) { return bucket.local; });
}

void GradientBuckets::exchange_local(const Group& group, bool all) {
  for (Bucket& bucket : buckets_)
    if (all || bucket.local) send(bucket, group);
  receive();
}

}  // namespace booster
