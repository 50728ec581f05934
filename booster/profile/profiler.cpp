// The recorder: a log per thread, so that threads do not wait for one another.
#include "booster/profile/profiler.h"

#include "core/tensor/memory/allocator.h"
#include "kernels/system/error.h"

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
    check(!running_, "Profiler: another one records; want one at a time");
    running_ = true;
    ++recording_;
    logs_.clear();
    kernels::trace_listener = [](const Span& span) { recorder().record(span); };
  }

  std::vector<std::vector<ProfileEvent>> stop() {
    std::lock_guard lock(mutex_);
    kernels::trace_listener = nullptr;
    running_ = false;
    std::vector<std::vector<ProfileEvent>> events;
    for (const auto& log : logs_) {
      std::lock_guard own(log->mutex);
      events.push_back(std::move(log->events));
    }
    return events;
  }

  // The calling thread's log becomes the first one.
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

// Sorts the events and computes the phase and own time of each.
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

}  // namespace

Profiler::Profiler() {
  Recorder::recorder().start();
  Recorder::recorder().log();
  begin_ = kernels::trace_clock();
}

Profiler::~Profiler() { stop(); }

void Profiler::stop() {
  if (end_) return;
  end_ = kernels::trace_clock();
  for (auto& events : Recorder::recorder().stop()) {
    // Drops spans that began before the recording.
    std::erase_if(events, [this](const auto& e) { return e.span.begin < begin_; });
    nest(events);
    threads_.push_back({thread_name(threads_.size(), events), std::move(events)});
  }
}

std::vector<ProfileRow> Profiler::rows() const {
  std::map<std::tuple<bool, std::string, std::string, std::string>, ProfileRow> sums;
  for (const auto& thread : threads_) {
    const bool is_main = &thread == &threads_[0];
    for (const auto& [span, live_bytes, own, phase] : thread.events) {
      if (!is_row(span)) continue;
      const std::string name =
          *span.detail ? fmt::format("{} {}", span.name, span.detail) : span.name;
      ProfileRow& row = sums[{is_main, name, span.dtype, phase}];
      row.name = name;
      row.dtype = span.dtype;
      row.phase = phase;
      row.on_main_thread = is_main;
      ++row.calls;
      row.seconds += static_cast<double>(own) * 1e-9;
      row.gflop += span.flop * 1e-9;
      row.gbytes += span.bytes * 1e-9;
    }
  }
  std::vector<ProfileRow> rows;
  for (auto& [key, row] : sums) rows.push_back(std::move(row));
  std::stable_sort(rows.begin(), rows.end(), [](const ProfileRow& a, const ProfileRow& b) {
    return std::tuple(a.on_main_thread, a.seconds) > std::tuple(b.on_main_thread, b.seconds);
  });
  return rows;
}

}  // namespace booster
