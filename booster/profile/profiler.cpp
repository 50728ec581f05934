// The recorder: one log per thread, so that threads do not wait for one another.
#include "booster/profile/profiler.h"

#include "booster/profile/gpu.h"
#include "booster/profile/profile_events.h"
#include "core/tensor/memory/allocator.h"
#include "kernels/device/cuda_module.h"
#include "platform/error.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

namespace booster {

namespace {

using kernels::Span;
using kernels::SpanKind;

struct ThreadLog {
  std::mutex mutex;  // taken by its own thread, and by stop()
  std::vector<ProfileEvent> events;
};

// All logs of the current recording. Never destroyed: threads may outlive main.
class Recorder {
 public:
  void start() {
    std::lock_guard lock(mutex_);
    check(!running_, "Profiler: another one is recording; want one at a time");
    running_ = true;
    ++recording_;
    logs_.clear();
  }
  // Records from now on; the calling thread's log is the first one.
  void listen() {
    log();
    kernels::gpu_times_wanted = true;
    kernels::trace_listener = [](const Span& span) { recorder().record(span); };
  }

  std::vector<std::vector<ProfileEvent>> stop() {
    std::lock_guard lock(mutex_);
    kernels::trace_listener = nullptr;
    kernels::gpu_times_wanted = false;
    running_ = false;
    std::vector<std::vector<ProfileEvent>> events;
    for (const auto& log : logs_) {
      std::lock_guard own(log->mutex);
      events.push_back(std::move(log->events));
    }
    return events;
  }

  ThreadLog& log() {
    thread_local std::shared_ptr<ThreadLog> log;
    thread_local int recording = 0;
    if (recording != recording_.load(std::memory_order_relaxed)) {
      log = std::make_shared<ThreadLog>();
      log->events.reserve(1 << 14);
      std::lock_guard lock(mutex_);
      recording = recording_;
      logs_.push_back(log);
    }
    return *log;
  }

  static Recorder& recorder() {
    static Recorder* recorder = new Recorder;
    return *recorder;
  }

 private:
  void record(const Span& span) {
    ThreadLog& mine = log();
    const int64_t live = allocator_stats().live_bytes;
    std::lock_guard lock(mine.mutex);
    mine.events.push_back({span, live});
  }

  std::mutex mutex_;
  bool running_ = false;
  std::atomic<int> recording_ = 0;
  std::vector<std::shared_ptr<ThreadLog>> logs_;
};

int64_t duration(const Span& span) { return span.end - span.begin; }

// Sorts the events and computes each event's phase and own time.
void nest(std::vector<ProfileEvent>& events) {
  std::sort(events.begin(), events.end(), [](const ProfileEvent& a, const ProfileEvent& b) {
    return std::tuple(a.span.begin, -a.span.end) < std::tuple(b.span.begin, -b.span.end);
  });
  std::vector<ProfileEvent*> open;
  for (ProfileEvent& event : events) {
    while (!open.empty() && open.back()->span.end <= event.span.begin) open.pop_back();
    event.own_nanoseconds = duration(event.span);
    if (!open.empty()) {
      open.back()->own_nanoseconds -= duration(event.span);
      event.phase = open.back()->phase;
    }
    if (event.span.kind == SpanKind::phase) event.phase = event.span.name;
    open.push_back(&event);
  }
}

std::string thread_name(size_t index, const std::vector<ProfileEvent>& events) {
  if (index == 0) return "main";
  for (const ProfileEvent& event : events) {
    if (event.span.kind == SpanKind::loader) return "loader";
    if (event.span.kind == SpanKind::collective) return "collectives";
  }
  return "thread";
}

bool is_row(const Span& span) { return span.kind != SpanKind::op && span.kind != SpanKind::phase; }

class RowSums {
 public:
  void add(const ProfileEvent& event, bool is_main) {
    const Span& span = event.span;
    std::string name = *span.detail ? fmt::format("{} {}", span.name, span.detail) : span.name;
    if (!is_gpu(event.device)) {
      add({std::move(name), span.dtype, event.phase, is_main}, span, event.own_nanoseconds);
      return;
    }
    add({std::move(name), span.dtype, event.phase, false, event.device}, span,
        event.gpu_end - event.gpu_begin);
    add({"launch kernels", "", event.phase, is_main}, {}, event.own_nanoseconds);
  }
  std::vector<ProfileRow> rows() const {
    std::vector<ProfileRow> all;
    for (const auto& [key, row] : sums_) all.push_back(row);
    return all;
  }

 private:
  void add(ProfileRow row, const Span& work, int64_t nanoseconds) {
    ProfileRow& sum = sums_
                          .try_emplace({row.device.index, is_gpu(row.device), row.on_main_thread,
                                        row.name, row.dtype, row.phase},
                                       row)
                          .first->second;
    ++sum.calls;
    sum.seconds += static_cast<double>(nanoseconds) * 1e-9;
    sum.gflop += work.flop * 1e-9;
    sum.gbytes += work.bytes * 1e-9;
  }

  std::map<std::tuple<int, bool, bool, std::string, std::string, std::string>, ProfileRow> sums_;
};

}  // namespace

Profiler::Profiler() {
  Recorder::recorder().start();
  Recorder::recorder().listen();
  begin_ = kernels::trace_clock();
}

Profiler::~Profiler() { stop(); }

void Profiler::stop() {
  if (end_) return;
  for (auto& events : Recorder::recorder().stop()) {
    // Drops spans that began before the recording.
    std::erase_if(events, [this](const auto& e) { return e.span.begin < begin_; });
    nest(events);
    threads_.push_back({thread_name(threads_.size(), events), std::move(events)});
  }
  read_gpu_times();
  end_ = kernels::trace_clock();
}

void Profiler::read_gpu_times() try {
  std::vector<ProfileEvent*> timed;
  for (ProfileThread& thread : threads_)
    for (ProfileEvent& event : thread.events)
      if (event.span.gpu_time >= 0) timed.push_back(&event);
  if (timed.empty()) return;
  const auto [first, times] = kernels::cuda_module()->take_times();
  for (ProfileEvent* event : timed) {
    const int64_t index = event->span.gpu_time - first;
    if (index < 0 || index >= static_cast<int64_t>(times.size())) continue;
    const kernels::GpuTime& time = times[static_cast<size_t>(index)];
    if (time.device < 0) continue;
    event->device = Device::cuda(time.device);
    event->gpu_begin = time.begin;
    event->gpu_end = time.end;
  }
} catch (const Error&) {  // from a failed GPU; the program's next call reports it
}

std::vector<ProfileRow> Profiler::rows() const {
  RowSums sums;
  for (const auto& thread : threads_)
    for (const ProfileEvent& event : thread.events)
      if (is_row(event.span)) sums.add(event, &thread == &threads_[0]);
  std::vector<ProfileRow> rows = sums.rows();
  const auto rank = [](const ProfileRow& row) {
    return std::tuple(is_gpu(row.device), row.on_main_thread, row.seconds);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const ProfileRow& a, const ProfileRow& b) { return rank(a) > rank(b); });
  return rows;
}

std::vector<std::pair<Device, double>> Profiler::busy_seconds() const {
  std::map<int, std::vector<std::pair<int64_t, int64_t>>> kernels;  // by device
  for (const auto& thread : threads_)
    for (const ProfileEvent& event : thread.events)
      if (is_gpu(event.device))
        kernels[event.device.index].emplace_back(event.gpu_begin, event.gpu_end);
  std::vector<std::pair<Device, double>> busy;
  for (auto& [index, intervals] : kernels) {
    std::sort(intervals.begin(), intervals.end());
    int64_t sum = 0, until = begin_;
    for (const auto& [begin, end] : intervals) {
      sum += std::max<int64_t>(0, end - std::max(begin, until));
      until = std::max(until, end);
    }
    busy.emplace_back(Device::cuda(static_cast<int>(index)),
                      static_cast<double>(sum) * 1e-9);
  }
  return busy;
}

}  // namespace booster
