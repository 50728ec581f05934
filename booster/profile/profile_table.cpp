// The profiler's table: one line per kernel and phase, and a line for the time between them. GPU
// rows come before host rows.
#include "booster/profile/gpu.h"
#include "booster/profile/machine_speed.h"
#include "booster/profile/profile_events.h"
#include "booster/profile/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace booster {

namespace {

constexpr double seconds_per_rate = 0.2;

bool has_share(const ProfileRow& row) { return row.on_main_thread || is_gpu(row.device); }

// Rates of matrix products, for the dtypes and devices of the rows.
class Bounds {
 public:
  explicit Bounds(const std::vector<ProfileRow>& rows) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (const auto& row : rows)
        if (row.gflop > 0 && row.dtype == name_of(dtype) && !find(row)) measure(row.device, dtype);
  }
  double of(const ProfileRow& row) const {
    const Bound* bound = find(row);
    return bound ? bound->rate.gflops : 0;
  }
  std::string text() const {
    std::string lines;
    for (const auto& [device, dtype, rate] : all_)
      lines += fmt::format("bound in {}{}: {:.0f} GFLOP/s, measured by a {} x {} x {} matmul\n",
                           dtype, is_gpu(device) ? " on " + gpu_name(device) : "", rate.gflops,
                           rate.size, rate.size, rate.size);
    return lines;
  }

 private:
  struct Bound {
    Device device;
    std::string dtype;
    MatmulRate rate;
  };
  const Bound* find(const ProfileRow& row) const {
    for (const Bound& each : all_)
      if (each.device == row.device && each.dtype == row.dtype) return &each;
    return nullptr;
  }
  void measure(Device device, DType dtype) {
    all_.push_back({device, name_of(dtype),
                    is_gpu(device)
                        ? measure_matmul_rate(device, dtype, seconds_per_rate)
                        : MatmulRate{measure_matmul_gflops(dtype, seconds_per_rate), 1024}});
  }
  std::vector<Bound> all_;
};

// Returns a number right-aligned in `width` columns, blank if it is not positive.
std::string cell(double value, int width, int digits) {
  return value > 0 ? fmt::format("{:{}.{}f}", value, width, digits) : std::string(width, ' ');
}

constexpr int name_width = 32;

// Returns the rate; 0 for a kernel that is shorter than the resolution of a GPU's clock.
double per_second(double amount, const ProfileRow& row) {
  return row.seconds > 0 ? amount / row.seconds : 0;
}

std::string line(const ProfileRow& row, double total, double matmul_rate) {
  const double rate = per_second(row.gflop, row);
  return fmt::format("{:<{}} {:<5} {:<9} {:>7} {} {} {} {} {} {}\n", row.name, name_width,
                     row.dtype, row.phase, row.calls, cell(1e3 * row.seconds, 9, 2),
                     cell(has_share(row) ? 100 * row.seconds / total : 0, 6, 1), cell(rate, 8, 1),
                     cell(matmul_rate > 0 ? rate / matmul_rate : 0, 8, 2),
                     cell(1e3 * row.gbytes, 9, 1), cell(per_second(row.gbytes, row), 6, 1));
}

std::string rest_line(const std::string& name, double seconds, double total) {
  return fmt::format("{:<{}} {:<5} {:<9} {:>7} {} {}\n", name, name_width, "", "", "",
                     cell(1e3 * seconds, 9, 2), cell(100 * seconds / total, 6, 1));
}

// Returns the main thread's seconds by phase, in the order of the step.
std::string phases_of(const ProfileThread& main, double total) {
  std::vector<std::pair<std::string, int64_t>> sums;
  for (const auto& event : main.events) {
    if (event.span.kind != kernels::SpanKind::phase) continue;
    auto sum = std::find_if(sums.begin(), sums.end(),
                            [&](const auto& entry) { return entry.first == event.span.name; });
    if (sum == sums.end()) sum = sums.insert(sum, {event.span.name, 0});
    sum->second += event.span.end - event.span.begin;
  }
  std::string text;
  for (const auto& [name, nanoseconds] : sums)
    text += fmt::format("; {} {:.1f} %", name, 1e-7 * static_cast<double>(nanoseconds) / total);
  return text;
}

}  // namespace

std::string Profiler::table() const {
  const std::vector<ProfileRow> all = rows();
  const double total = seconds();
  const Bounds bounds(all);
  std::string text =
      fmt::format("profile: {:.3f} s{}\n", total, phases_of(threads_.front(), total));
  text += fmt::format("{:<{}} {:<5} {:<9} {:>7} {:>9} {:>6} {:>8} {:>8} {:>9} {:>6}\n", "kernel",
                      name_width, "dtype", "in", "calls", "ms", "%", "GFLOP/s", "of bound", "MB",
                      "GB/s");
  const auto busy = busy_seconds();
  double rest = total;
  bool is_below_gpus = busy.empty();
  for (const auto& row : all) {
    if (!is_gpu(row.device) && !std::exchange(is_below_gpus, true))
      for (const auto& [device, seconds] : busy)
        text += rest_line(fmt::format("({} is idle)", gpu_name(device)), total - seconds, total);
    if (row.on_main_thread) rest -= row.seconds;
    text += line(row, total, bounds.of(row));
  }
  text += rest_line(busy.empty() ? "(between kernels)" : "(between launches)", rest, total);
  if (const auto [all, hidden] = communication(); all > 0)
    text += fmt::format(
        "communication: {:.2f} ms in parallel with the main thread, {:.0f} % hidden by backward\n",
        1e3 * all, 100 * hidden / all);
  return text + bounds.text();
}

}  // namespace booster
