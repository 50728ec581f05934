#include "kernels/device/gpu_times.h"

#include "kernels/cuda/runtime/call.cuh"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/graph.h"
#include "platform/error.h"

#include <chrono>
#include <map>
#include <mutex>
#include <utility>

namespace booster::kernels::cuda {
namespace {

struct Timing {
  int device = -1;
  cudaEvent_t begin = nullptr, end = nullptr;
  bool is_complete = false;  // both are recorded in the stream
};

// Never destroyed, because the runtime may end first.
struct Timings {
  std::mutex mutex;
  int64_t first = 0;
  std::vector<Timing> all;
  std::map<int, std::vector<cudaEvent_t>> free_events;  // by device
};

Timings& timings() {
  static auto* kept = new Timings;
  return *kept;
}

// Returns an event; null if the device gives none.
cudaEvent_t take_event(int device) {
  std::vector<cudaEvent_t>& free_events = timings().free_events[device];
  cudaEvent_t event = nullptr;
  if (free_events.empty()) {
    cudaEventCreateWithFlags(&event, 0);
    return event;
  }
  event = free_events.back();
  free_events.pop_back();
  return event;
}

// Returns true if the event could be recorded, and false if the GPU has failed; the kernel's own
// call reports that.
bool is_marked(cudaEvent_t event) {
  try {
    return cudaEventRecord(event, current_stream()) == cudaSuccess;
  } catch (const Error&) {
    return false;
  }
}

int64_t clock_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int64_t nanoseconds_between(cudaEvent_t from, cudaEvent_t to) {
  float milliseconds = 0;
  CUDA_CALL(cudaEventElapsedTime(&milliseconds, from, to));
  return static_cast<int64_t>(1e6 * static_cast<double>(milliseconds));
}

// A past event of a device, and the time at which the host saw it.
struct Anchor {
  cudaEvent_t event = nullptr;
  int64_t time = 0;
};

Anchor anchor_on(int device) {
  use(device);
  Anchor anchor;
  CUDA_CALL(cudaEventCreateWithFlags(&anchor.event, 0));
  CUDA_CALL(cudaEventRecord(anchor.event, current_stream()));
  CUDA_CALL(cudaEventSynchronize(anchor.event));
  anchor.time = clock_now();
  return anchor;
}

// An anchor follows all events that it dates, so each distance is measured from the end of a
// measurement. Distances are milliseconds with 24 bits, so long ones are rounded.
class Anchors {
 public:
  explicit Anchors(const std::vector<Timing>& all) {
    for (const Timing& each : all)
      if (each.is_complete) CUDA_CALL(cudaEventSynchronize(each.end));
    for (const Timing& each : all)
      if (each.is_complete && !anchors_.contains(each.device))
        anchors_[each.device] = anchor_on(each.device);
  }
  ~Anchors() {
    for (const auto& [device, anchor] : anchors_) cudaEventDestroy(anchor.event);
  }
  Anchors(const Anchors&) = delete;

  GpuTime time_of(const Timing& timing) const {
    if (!timing.is_complete) return {};
    const Anchor& anchor = anchors_.at(timing.device);
    const int64_t begin = anchor.time - nanoseconds_between(timing.begin, anchor.event);
    return {timing.device, begin, begin + nanoseconds_between(timing.begin, timing.end)};
  }

 private:
  std::map<int, Anchor> anchors_;
};

// Takes over the timings for take_times(); no other code uses them afterwards.
std::pair<int64_t, std::vector<Timing>> taken() {
  std::lock_guard lock(timings().mutex);
  const int64_t first = timings().first;
  timings().first += static_cast<int64_t>(timings().all.size());
  return {first, std::exchange(timings().all, {})};
}

// Returns events to the pool. If a timing has begun but not ended, the stream may still record its
// end.
void give_back(const std::vector<Timing>& all) {
  std::lock_guard lock(timings().mutex);
  for (const Timing& each : all) {
    if (!each.is_complete) continue;
    timings().free_events[each.device].push_back(each.begin);
    timings().free_events[each.device].push_back(each.end);
  }
}

}  // namespace

int64_t begin_time() noexcept {
  if (graph_in_progress()) return -1;  // it runs during replays
  std::lock_guard lock(timings().mutex);
  const int device = current_device();
  const Timing timing = {device, take_event(device), take_event(device)};
  if (!timing.begin || !timing.end || !is_marked(timing.begin)) return -1;
  timings().all.push_back(timing);
  return timings().first + static_cast<int64_t>(timings().all.size()) - 1;
}

void end_time(int64_t number) noexcept {
  std::lock_guard lock(timings().mutex);
  const int64_t index = number - timings().first;
  if (index < 0 || index >= static_cast<int64_t>(timings().all.size())) return;
  Timing& timing = timings().all[static_cast<size_t>(index)];
  timing.is_complete = is_marked(timing.end);
}

GpuTimes take_times() {
  const auto [first, all] = taken();
  GpuTimes times{first, {}};
  const Anchors anchors(all);
  for (const Timing& each : all) times.times.push_back(anchors.time_of(each));
  give_back(all);
  return times;
}

}  // namespace booster::kernels::cuda
