#include "kernels/system/trace.h"

#include <chrono>

namespace booster::kernels {

std::atomic<TraceListener> trace_listener = nullptr;

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

void TraceScope::close() const {
  tell({.name = name_, .kind = kind_, .begin = begin_, .bytes = static_cast<double>(bytes_)});
}

}  // namespace booster::kernels
