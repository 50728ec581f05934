#include "core/autograd/constant_casts.h"

#include "kernels/host/recording.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace booster {
namespace {
thread_local ConstantCasts* casts_now = nullptr;
}  // namespace

ConstantCasts::ConstantCasts(const std::vector<Tensor>& constants) {
  for (const Tensor& constant : constants) entries_.emplace(constant.body(), Entry{constant, {}});
}

ConstantCasts::Scope::Scope(ConstantCasts& casts) : before_(std::exchange(casts_now, &casts)) {}
ConstantCasts::Scope::~Scope() { casts_now = before_; }

ConstantCasts* ConstantCasts::current() { return casts_now; }

// Returns a handle of its own, since results of ops may get marks; undefined if there is no copy.
Tensor ConstantCasts::current_copy(const Entry& entry, DType dtype) {
  for (const Copy& copy : entry.copies)
    if (copy.dtype == dtype && copy.version == entry.constant.version())
      return copy.values.detach();
  return {};
}

// Recorded work converts a constant in each replay, as other casts of leaves do.
Tensor ConstantCasts::cast(const Tensor& x, DType dtype) {
  const auto found = entries_.find(x.body());
  if (found == entries_.end() || kernels::is_recording()) return untracked::cast(x.detach(), dtype);
  Entry& entry = found->second;
  {
    const std::shared_lock lock(mutex_);
    if (Tensor copy = current_copy(entry, dtype); copy.defined()) return copy;
  }
  const std::unique_lock lock(mutex_);
  if (Tensor copy = current_copy(entry, dtype); copy.defined()) return copy;
  std::erase_if(entry.copies, [&](const Copy& copy) { return copy.dtype == dtype; });
  const Tensor values = untracked::cast(x.detach(), dtype);
  set_memory_tag(values, MemoryTag::copies);
  entry.copies.push_back({dtype, values, x.version()});
  return values.detach();
}

}  // namespace booster
