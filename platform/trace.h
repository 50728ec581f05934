// Reports to a listener (booster/profile/profiler.h) where time goes: every kernel call, and the
// scopes that other code opens. Scopes are phases of the step, ops, waits for the loader or the
// GPU, and collectives. A marker receives the begin and end of each of them. Without either, each
// costs two relaxed loads and a branch. Thread-safe; both are called on the thread that did the
// work.
#pragma once

#include <atomic>
#include <cstdint>

namespace booster::kernels {

enum class SpanKind : uint8_t { kernel, op, phase, loader, collective, transfer };
constexpr const char* name_of(SpanKind kind) {
  constexpr const char* names[] = {"kernel", "op", "phase", "loader", "collective", "transfer"};
  return names[static_cast<int>(kind)];
}

// A timed span. Its texts are valid until the program ends.
struct Span {
  const char* name;
  SpanKind kind;
  const char* detail = "";  // which elementwise function, which reduction
  const char* dtype = "";   // of the largest operand
  int64_t begin = 0;        // nanoseconds of the steady clock
  int64_t end = 0;
  double flop = 0;   // of matrix products, attention and convolutions; 0: not counted
  double bytes = 0;  // the least that must be read and written
  // For a kernel that ran on a GPU while GPU times were wanted: the number of its measurement
  // (kernels/device/gpu_times.h). begin and end are then the launch's.
  int64_t gpu_time = -1;
};

using TraceListener = void (*)(const Span&);
extern std::atomic<TraceListener> trace_listener;  // null: no listener

// True if a listener wants the times at which GPUs ran their kernels.
extern std::atomic<bool> gpu_times_wanted;

// Ranges on the timeline of another tool (NVTX, for Nsight Systems). They nest on each thread.
struct RangeMarker {
  void (*push)(const char* name);
  void (*pop)();
};
extern std::atomic<const RangeMarker*> range_marker;  // null: no tool draws ranges

inline bool is_tracing() {
  return trace_listener.load(std::memory_order_relaxed) != nullptr ||
         range_marker.load(std::memory_order_relaxed) != nullptr;
}
int64_t trace_clock();
// Ends the span now and passes it to the listener, if there still is one.
void tell(Span span);

// Reports its lifetime as one span.
class TraceScope {
 public:
  TraceScope(const char* name, SpanKind kind, int64_t bytes = 0)
      : name_(name), bytes_(bytes), kind_(kind) {
    if (is_tracing()) [[unlikely]]
      open();
  }
  ~TraceScope() {
    if (begin_) [[unlikely]]
      close();
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  void open();
  void close() const;

  const char* name_;
  int64_t bytes_;
  int64_t begin_ = 0;
  const RangeMarker* marker_ = nullptr;  // the marker that received the begin
  SpanKind kind_;
};

}  // namespace booster::kernels
