#include "booster/report/chart.h"
#include "booster/report/metrics_file.h"
#include "booster/report/run_files.h"
#include "tools/report/page/sections.h"
#include "tools/report/trace_summary.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster::report {

namespace {

using Json = nlohmann::json;

constexpr size_t shown_kernels = 12;

struct Part {
  std::string name;
  double amount;
};

// Returns a bar with the parts as shares of their sum, and their names below.
std::string bar(std::vector<Part> parts, const char* unit) {
  double sum = 0;
  for (const Part& part : parts) sum += part.amount;
  if (!(sum > 0)) return "";
  std::string pieces, names;
  double begin = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const double share = 100 * parts[i].amount / sum;
    const std::string name = markup_text(parts[i].name);
    const size_t colour = i % static_cast<size_t>(chart_colours);
    pieces += fmt::format(
        "<rect class=\"f{}\" x=\"{:.3f}%\" width=\"{:.3f}%\" height=\"100%\">"
        "<title>{}: {:.1f} %</title></rect>",
        colour, begin, share, name, share);
    begin += share;
    names += fmt::format(
        "<span class=\"run\"><span class=\"key b{}\"></span>{} {:.1f} % "
        "<small>({:.4g} {})</small></span> ",
        colour, name, share, parts[i].amount, unit);
  }
  return "<svg class=\"bar\" role=\"img\">" + pieces + "</svg>\n<p class=\"legend\">" + names +
         "</p>\n";
}

std::string activities(const RunFolder& run) {
  std::vector<Part> parts;
  const Json& seconds = part_of(run.record, {"seconds"});
  if (seconds.is_object())
    for (const auto& [name, value] : seconds.items())
      if (value.is_number() && name != "wall" && value.get<double>() > 0)
        parts.push_back({name, value.get<double>()});
  std::ranges::stable_sort(parts, std::greater(), &Part::amount);
  return bar(std::move(parts), "s");
}

std::string profile(const RunFolder& run) {
  const TraceSummary trace = summarize_trace(run.path / "trace.json");
  if (trace.kernels.empty()) return "";
  std::vector<Part> phases;
  for (const TraceRow& row : trace.phases) phases.push_back({row.name, row.milliseconds});
  double sum = 0;
  for (const TraceRow& row : trace.kernels) sum += row.milliseconds;
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min(trace.kernels.size(), shown_kernels); ++i) {
    const TraceRow& row = trace.kernels[i];
    rows.push_back({"<code>" + markup_text(row.name) + "</code>", markup_text(row.dtype),
                    fmt::format("{}", row.calls), fmt::format("{:.2f}", row.milliseconds),
                    fmt::format("{:.1f}", 100 * row.milliseconds / sum)});
  }
  std::string text = "<h4>Profiled steps</h4>\n" + bar(phases, "ms") +
                     markup_table({"kernel", "dtype", "calls", "ms", "% of kernels"}, rows);
  if (trace.left_out > 0)
    text += fmt::format("<p>{} unreadable events in trace.json.</p>\n", trace.left_out);
  return text;
}

}  // namespace

std::string time_section(const Runs& runs) {
  std::string body;
  for (size_t i = 0; i < runs.size(); ++i) {
    const std::string text = activities(runs[i]) + profile(runs[i]);
    if (!text.empty()) body += "<h3>" + run_label(runs, i) + "</h3>\n" + text;
  }
  return section("time", "Where the time went", body);
}

}  // namespace booster::report
