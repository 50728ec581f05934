#include "booster/report/metrics_file.h"
#include "booster/report/run_files.h"
#include "tools/report/page/sections.h"
#include "tools/report/precision_events.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster::report {

namespace {

constexpr size_t most_events = 50;  // per run

std::string steps(const PrecisionEvent& event) {
  return event.from + 1 < event.to ? fmt::format("{:.0f} to {:.0f}", event.from + 1, event.to)
                                   : fmt::format("{:.0f}", event.to);
}

}  // namespace

std::string precision_section(const Runs& runs) {
  std::string body;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto events = precision_events(runs[i]);
    if (events.empty()) continue;
    std::vector<std::vector<std::string>> rows;
    for (size_t at = 0; at < std::min(events.size(), most_events); ++at)
      rows.push_back({steps(events[at]), markup_text(events[at].what)});
    body += "<h3>" + run_label(runs, i) + "</h3>\n" + markup_table({"steps", "what"}, rows);
    if (events.size() > most_events)
      body += fmt::format("<p>and {} more</p>\n", events.size() - most_events);
  }
  const bool any_metrics =
      std::ranges::any_of(runs, [](const RunFolder& run) { return !run.metrics.lines.empty(); });
  if (body.empty() && any_metrics)
    body = "<p>No step was skipped, no loss scale changed, and every loss was finite.</p>\n";
  return section("precision", "Precision", body);
}

}  // namespace booster::report
