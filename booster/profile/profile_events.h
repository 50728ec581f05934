// What a Profiler recorded, event by event.
#pragma once

#include "core/tensor/tensor.h"
#include "platform/trace.h"

#include <string>
#include <vector>

namespace booster {

struct ProfileEvent {
  kernels::Span span;
  int64_t live_bytes;           // of tensors, at its end
  int64_t own_nanoseconds = 0;  // without nested spans
  const char* phase = "";       // the enclosing phase on its thread
  // The GPU's run time, in nanoseconds on the clock of the span. On the CPU it is not set.
  Device device = {};
  int64_t gpu_begin = 0, gpu_end = 0;
};

// The events of one thread, by begin; an outer span comes before the spans inside it.
struct ProfileThread {
  std::string name;  // "main", "loader", "collectives"
  std::vector<ProfileEvent> events;
};

}  // namespace booster
