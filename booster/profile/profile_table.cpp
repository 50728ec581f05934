// The profiler's table: one line per kernel and phase, and a line for the time between them.
#include "booster/profile/machine_speed.h"
#include "booster/profile/profiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace booster {

namespace {

constexpr double seconds_per_rate = 0.2;

// Rates of matrix products, for the dtypes that the rows multiply in.
std::map<std::string, double> matmul_rates(const std::vector<ProfileRow>& rows) {
  std::map<std::string, double> rates;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const auto& row : rows)
      if (row.gflop > 0 && row.dtype == name_of(dtype) && !rates.contains(row.dtype))
        rates[row.dtype] = measure_matmul_gflops(dtype, seconds_per_rate);
  return rates;
}

// A number right-aligned in `width` columns, blank if there is none.
std::string cell(double value, int width, int digits) {
  return value > 0 ? fmt::format("{:{}.{}f}", value, width, digits) : std::string(width, ' ');
}

constexpr int name_width = 32;

std::string line(const ProfileRow& row, double total, double matmul_rate) {
  const double rate = row.gflop / row.seconds;
  return fmt::format("{:<{}} {:<5} {:<9} {:>7} {} {} {} {} {} {}\n", row.name, name_width,
                     row.dtype, row.phase, row.calls, cell(1e3 * row.seconds, 9, 2),
                     cell(row.on_main_thread ? 100 * row.seconds / total : 0, 6, 1),
                     cell(rate, 8, 1), cell(matmul_rate > 0 ? rate / matmul_rate : 0, 8, 2),
                     cell(1e3 * row.gbytes, 9, 1), cell(row.gbytes / row.seconds, 6, 1));
}

// Seconds of the main thread by phase, in the order of the step.
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
  const auto rates = matmul_rates(all);
  std::string text =
      fmt::format("profile: {:.3f} s{}\n", total, phases_of(threads_.front(), total));
  text += fmt::format("{:<{}} {:<5} {:<9} {:>7} {:>9} {:>6} {:>8} {:>8} {:>9} {:>6}\n", "kernel",
                      name_width, "dtype", "in", "calls", "ms", "%", "GFLOP/s", "of bound", "MB",
                      "GB/s");
  double rest = total;
  for (const auto& row : all) {
    if (row.on_main_thread) rest -= row.seconds;
    const auto rate = rates.find(row.dtype);
    text += line(row, total, rate == rates.end() ? 0 : rate->second);
  }
  text += fmt::format("{:<{}} {:<5} {:<9} {:>7} {} {}\n", "(between kernels)", name_width, "", "",
                      "", cell(1e3 * rest, 9, 2), cell(100 * rest / total, 6, 1));
  if (const auto [all, hidden] = communication(); all > 0)
    text += fmt::format("communication: {:.2f} ms beside the main thread, "
                        "{:.0f} % behind backward\n",
                        1e3 * all, 100 * hidden / all);
  for (const auto& [dtype, rate] : rates)
    text += fmt::format("bound in {}: {:.0f} GFLOP/s, a 1024 x 1024 x 1024 matmul just now\n",
                        dtype, rate);
  return text;
}

}  // namespace booster
