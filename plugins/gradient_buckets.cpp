#include "plugins/gradient_buckets.h"

#include "core/autograd/tape.h"

#include <map>

namespace booster {

GradientBuckets::GradientBuckets(const Parameters& parameters, int64_t cap_bytes,
                                 int64_t first_cap_bytes)
    : slots_(parameters.size()) {
  // A bucket is one tensor, so it holds one dtype; one is open for each.
  struct Open {
    std::vector<int64_t> members;
    int64_t bytes = 0;
  };
  std::map<DType, Open> open;
  for (int64_t i = static_cast<int64_t>(parameters.size()) - 1; i >= 0; --i) {
    const Tensor& parameter = parameters[i].tensor;
    auto& [members, bytes] = open[grad_dtype(parameter)];
    if (bytes >= (buckets_.empty() ? first_cap_bytes : cap_bytes)) {
      add_bucket(parameters, members);
      members.clear();
      bytes = 0;
    }
    members.push_back(i);
    bytes += parameter.numel() * size_of(grad_dtype(parameter));
  }
  for (const auto& [dtype, rest] : open) add_bucket(parameters, rest.members);
  reset();
}

void GradientBuckets::add_bucket(const Parameters& parameters,
                                 const std::vector<int64_t>& members) {
  int64_t elements = 0;
  for (int64_t i : members) elements += parameters[i].tensor.numel();
  const Tensor& first = parameters[members[0]].tensor;
  const Tensor flat = zeros({elements}, {grad_dtype(first), first.device()});
  int64_t at = 0;
  for (int64_t i : members) {
    const Tensor& parameter = parameters[i].tensor;
    const Tensor run = untracked::narrow(flat, 0, at, parameter.numel());
    slots_[i] = {count(), untracked::reshape(run, parameter.shape()), false};
    at += parameter.numel();
  }
  buckets_.push_back({flat, static_cast<int64_t>(members.size()), 0});
}

Tensor GradientBuckets::window(int64_t parameter) const { return slots_[parameter].window; }

void GradientBuckets::reset() {
  for (Slot& slot : slots_) slot.ready = false;
  for (Bucket& bucket : buckets_) bucket.missing = bucket.parameters;
  started_ = 0;
  works_.clear();
}

void GradientBuckets::mark_ready(int64_t parameter, const Group& group) {
  Slot& slot = slots_[parameter];
  if (slot.ready) return;
  slot.ready = true;
  --buckets_[slot.bucket].missing;
  while (started_ < count() && buckets_[started_].missing == 0) {
    works_.push_back(group.all_reduce_async(buckets_[started_].flat, CollectiveOp::mean));
    ++started_;
  }
}

void GradientBuckets::wait() {
  for (const Work& work : works_) work.wait();
  works_.clear();
}

}  // namespace booster
