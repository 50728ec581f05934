#include "platform/trace.h"

#include <chrono>

namespace booster::kernels {

std::atomic<TraceListener> trace_listener = nullptr;
std::atomic<bool> gpu_times_wanted = false;
std::atomic<const RangeMarker*> range_marker = nullptr;

int64_t trace_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void tell(Span span) {
  const TraceListener listener = trace_listener.load(std::memory_order_acquire);
  if (!listener) return;
  span.end = trace_clock();
  listener(span);
}

void TraceScope::open() {
  marker_ = range_marker.load(std::memory_order_acquire);
  if (marker_) marker_->push(name_);
  begin_ = trace_clock();
}

void TraceScope::close() const {
  if (marker_) marker_->pop();
  tell({.name = name_, .kind = kind_, .begin = begin_, .bytes = static_cast<double>(bytes_)});
}

}  // namespace booster::kernels
