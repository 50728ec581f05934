// The profiler's trace, in the Trace Event Format that Chrome's and Perfetto's viewers read: "X" is
// a span, "C" a counter, "M" a name. Times are microseconds of the machine's steady clock, so ranks
// on one machine line up.
#include "booster/profile/gpu.h"
#include "booster/profile/profile_events.h"
#include "booster/profile/profiler.h"
#include "parallel/groups/group.h"
#include "platform/files/file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace booster {

namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

double microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-3; }

// The events of one rank, as one process of the trace.
class RankTrace {
 public:
  explicit RankTrace(int rank) : rank_(rank) {
    add("\"ph\":\"M\",\"name\":\"process_name\",\"args\":{{\"name\":\"rank {}\"}}", rank);
  }

  void add_thread(int number, const ProfileThread& thread) {
    add("\"ph\":\"M\",\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":{}}}", number,
        quoted(thread.name));
    for (const ProfileEvent& event : thread.events) {
      const bool is_launch = is_gpu(event.device);
      add_span(number, event.span, is_launch ? "launch" : name_of(event.span.kind),
               event.span.begin, event.span.end);
      // Kernels do not nest. Skip scopes, because they end later than the spans listed after them.
      if (event.span.kind != kernels::SpanKind::kernel) continue;
      if (std::exchange(live_bytes_, event.live_bytes) != event.live_bytes)
        add("\"ph\":\"C\",\"name\":\"memory\",\"ts\":{:.3f},\"args\":{{\"live MB\":{:.3f}}}",
            microseconds(event.span.end), static_cast<double>(event.live_bytes) * 1e-6);
    }
  }

  // Adds the kernels that a GPU ran as the events of a thread with this number.
  void add_gpu(int number, Device gpu, const std::vector<ProfileThread>& threads) {
    add("\"ph\":\"M\",\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":{}}}", number,
        quoted(gpu_name(gpu)));
    for (const ProfileThread& thread : threads)
      for (const ProfileEvent& event : thread.events)
        if (event.device == gpu)
          add_span(number, event.span, "gpu", event.gpu_begin, event.gpu_end);
  }

  const std::string& text() const { return text_; }

 private:
  void add_span(int thread, const kernels::Span& span, const char* category, int64_t begin,
                int64_t end) {
    const std::string name =
        *span.detail ? fmt::format("{} {}", span.name, span.detail) : span.name;
    std::string details;
    if (*span.dtype) details += fmt::format(",\"dtype\":\"{}\"", span.dtype);
    if (span.flop > 0) details += fmt::format(",\"GFLOP\":{:.6f}", span.flop * 1e-9);
    if (span.bytes > 0) details += fmt::format(",\"MB\":{:.6f}", span.bytes * 1e-6);
    if (!details.empty()) details.erase(0, 1);
    add("\"ph\":\"X\",\"tid\":{},\"name\":{},\"cat\":\"{}\",\"ts\":{:.3f},\"dur\":{:.3f},"
        "\"args\":{{{}}}",
        thread, quoted(name), category, microseconds(begin), microseconds(end - begin), details);
  }

  template <class... T>
  void add(fmt::format_string<T...> format, T&&... values) {
    text_ += fmt::format("{}{{\"pid\":{},", text_.empty() ? "" : ",\n", rank_);
    text_ += fmt::format(format, std::forward<T>(values)...);
    text_ += '}';
  }

  int rank_;
  int64_t live_bytes_ = -1;
  std::string text_;
};

}  // namespace

void Profiler::write_trace(const std::filesystem::path& path, const Group& group) const {
  RankTrace trace(group.rank());
  int number = 0;
  for (const ProfileThread& thread : threads_) trace.add_thread(number++, thread);
  for (const auto& [gpu, seconds] : busy_seconds()) trace.add_gpu(number++, gpu, threads_);
  const auto texts = gather_text(trace.text(), group);
  if (group.rank() > 0) return;
  write_file(path, fmt::format("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n",
                               fmt::join(texts, ",\n")));
}

}  // namespace booster
