#include "booster/report/chart.h"
#include "booster/report/metrics_file.h"
#include "booster/report/run_files.h"
#include "tools/report/page/sections.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster::report {

namespace {

using Json = nlohmann::json;

// Returns text and numbers of a record unchanged; "" for null.
std::string shown(const Json& value) {
  if (value.is_null()) return "";
  return markup_text(value.is_string() ? value.get<std::string>() : value.dump());
}

std::string last_of(const RunFolder& run, const char* key, double factor, const char* format) {
  const auto points = run.metrics.series(key);
  return points.empty() ? "" : fmt::format(fmt::runtime(format), factor * points.back().second);
}

std::string best_accuracy(const RunFolder& run) {
  const auto points = run.metrics.series("val_top1");
  if (points.empty()) return "";
  const auto best = std::ranges::max_element(points, {}, &std::pair<double, double>::second);
  return fmt::format("{:.2f} %<small> at step {:.0f}</small>", 100 * best->second, best->first);
}

std::string steps_of(const RunFolder& run) {
  double last = 0;
  for (const Json& line : run.metrics.lines)
    if (const Json& step = part_of(line, {"step"}); step.is_number())
      last = std::max(last, step.get<double>());
  return fmt::format("{:.0f}", last);
}

std::string median_speed(const RunFolder& run) {
  for (const char* key : {"images_per_s", "tokens_per_s"}) {
    auto points = run.metrics.series(key);
    if (points.empty()) continue;
    const auto middle = points.begin() + static_cast<std::ptrdiff_t>(points.size() / 2);
    std::ranges::nth_element(points, middle, {}, &std::pair<double, double>::second);
    return fmt::format("{:.4g}", middle->second);
  }
  return "";
}

std::string seconds_of(const RunFolder& run) {
  const Json& wall = part_of(run.record, {"seconds", "wall"});
  if (!wall.is_number()) return "";
  const double seconds = wall.get<double>();
  return seconds < 120 ? fmt::format("{:.1f} s", seconds) : fmt::format("{:.0f} min", seconds / 60);
}

// Keeps the first twelve digits, and the suffix that shows changed files.
std::string revision_of(const RunFolder& run) {
  const Json& revision = part_of(run.record, {"git", "folder"});
  if (!revision.is_string()) return "";
  const std::string text = revision.get<std::string>();
  const std::string tail = text.ends_with("-dirty") ? "-dirty" : "";
  return markup_text(text.substr(0, 12) + tail);
}

std::string problems_of(const RunFolder& run) {
  std::string items;
  if (!run.metrics.left_out.empty())
    items += fmt::format("<li>metrics.jsonl: left out {}</li>\n",
                         markup_text(run.metrics.describe_left_out()));
  for (const std::string& note : run.notes) items += "<li>" + markup_text(note) + "</li>\n";
  return items;
}

}  // namespace

std::string run_label(const Runs& runs, size_t i) {
  return fmt::format("<span class=\"run\"><span class=\"key b{}\"></span>{}</span>",
                     i % static_cast<size_t>(chart_colours), markup_text(runs[i].name));
}

std::string section(const char* id, const char* title, const std::string& body) {
  if (body.empty()) return "";
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", id, title, body);
}

std::string overview_section(const Runs& runs) {
  std::vector<std::vector<std::string>> rows;
  std::string problems;
  for (size_t i = 0; i < runs.size(); ++i) {
    const RunFolder& run = runs[i];
    const Json& config = part_of(run.record, {"config"});
    rows.push_back({run_label(runs, i), shown(part_of(config, {"model", "name"})),
                    shown(part_of(config, {"booster", "mixed_precision", "name"})),
                    shown(part_of(config, {"booster", "plugin", "name"})),
                    shown(part_of(run.record, {"ranks"})), steps_of(run),
                    last_of(run, "loss", 1, "{:.4g}"), best_accuracy(run), median_speed(run),
                    seconds_of(run), shown(part_of(run.record, {"machine", "processor"})),
                    revision_of(run)});
    if (const std::string items = problems_of(run); !items.empty())
      problems += fmt::format("<p>{}</p>\n<ul>\n{}</ul>\n", run_label(runs, i), items);
  }
  std::string body =
      markup_table({"run", "model", "precision", "plugin", "ranks", "steps", "last loss",
                    "best top 1", "samples/s", "time", "machine", "revision"},
                   rows);
  if (!problems.empty()) body += "<div class=\"problems\">\n" + problems + "</div>\n";
  return section("overview", "Runs", body);
}

}  // namespace booster::report
