#include "parallel/backends/gpu_work.h"

#include <algorithm>

namespace booster {

void GpuWork::throw_failure() const {
  if (!failure_.empty()) fail_run("{}", failure_);
}

void GpuWork::order(kernels::Stream stream) {
  std::lock_guard lock(mutex_);
  throw_failure();
  for (const auto& end : ends_) end->precede(stream.handle);
  used_.clear();
}

// Giving up makes the events awaited here complete.
void GpuWork::synchronize() {
  for (const auto& end : ends_) end->wait();
  std::lock_guard lock(mutex_);
  throw_failure();
}

bool GpuWork::is_done() {
  std::lock_guard lock(mutex_);
  return !failure_.empty() ||
         std::ranges::all_of(ends_, [](const auto& end) { return end->is_past(); });
}

void GpuWork::fail(const std::string& reason) {
  std::lock_guard lock(mutex_);
  failure_ = reason;
}

}  // namespace booster
