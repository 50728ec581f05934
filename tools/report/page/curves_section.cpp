#include "booster/report/chart.h"
#include "booster/report/run_files.h"
#include "tools/report/page/sections.h"

#include <algorithm>
#include <set>

namespace booster::report {

namespace {

struct KnownChart {
  const char* title;
  const char* key;
  const char* dashed_key;  // drawn in the same chart; "": none
  const char* note;
  bool dots = false, powers = false;
};
constexpr KnownChart known[] = {
    {"Training loss", "loss", "", ""},
    {"Validation loss", "val_loss", "", "", true},
    {"Validation accuracy", "val_top1", "val_top5", "top 1; dashed: top 5", true},
    {"Learning rate", "lr", "", ""},
    {"Loss scale", "loss_scale", "", "powers of two", false, true},
    {"Images per second", "images_per_s", "", ""},
    {"Tokens per second", "tokens_per_s", "", ""},
};
// Returns the keys of a line that are not curves.
const std::set<std::string> no_curves = {"step", "epoch", "skipped"};

// Returns the keys of values that programs add to the known ones.
std::set<std::string> other_keys(const Runs& runs) {
  std::set<std::string> keys;
  for (const RunFolder& run : runs)
    for (const auto& line : run.metrics.lines)
      for (const auto& [key, value] : line.items())
        if (value.is_number() && !no_curves.contains(key)) keys.insert(key);
  for (const KnownChart& chart : known) {
    keys.erase(chart.key);
    keys.erase(chart.dashed_key);
  }
  return keys;
}

void add_lines(Chart& chart, const Runs& runs, const std::string& key, bool dashed, bool dots) {
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto points = runs[i].metrics.series(key);
    if (points.empty()) continue;
    ChartLine line = {.name = runs[i].name,
                      .colour = static_cast<int>(i % chart_colours),
                      .dashed = dashed,
                      .dots = dots,
                      .points = {}};
    for (const auto& [step, value] : points) line.points.push_back({step, value});
    chart.lines.push_back(std::move(line));
  }
}

// A scale that is always 1 belongs to a run without loss scaling.
bool is_worth_showing(const Chart& chart) {
  if (!chart.powers_of_two) return !chart.lines.empty();
  return std::ranges::any_of(chart.lines, [](const ChartLine& line) {
    return std::ranges::any_of(line.points, [](const ChartPoint& p) { return p.y != 1; });
  });
}

std::string legend(const Runs& runs) {
  std::string text = "<p class=\"legend\">";
  for (size_t i = 0; i < runs.size(); ++i) text += run_label(runs, i) + " ";
  return text + "</p>\n";
}

}  // namespace

std::string curves_section(const Runs& runs) {
  std::string charts;
  const auto add = [&](const Chart& chart) {
    if (is_worth_showing(chart)) charts += "<div class=\"card\">" + chart_element(chart) + "</div>";
  };
  for (const KnownChart& row : known) {
    Chart chart = {.title = row.title, .note = row.note, .lines = {}, .powers_of_two = row.powers};
    add_lines(chart, runs, row.key, false, row.dots);
    if (*row.dashed_key) add_lines(chart, runs, row.dashed_key, true, false);
    add(chart);
  }
  std::string further;
  for (const std::string& key : other_keys(runs)) {
    Chart chart = {.title = key, .lines = {}};
    add_lines(chart, runs, key, false, false);
    further += "<div class=\"card\">" + chart_element(chart) + "</div>";
  }
  if (!further.empty())
    further = "<details><summary>further curves</summary>\n<div class=\"charts\">" + further +
              "</div></details>\n";
  if (charts.empty() && further.empty()) return "";
  return section("curves", "Curves",
                 legend(runs) + "<div class=\"charts\">\n" + charts + "</div>\n" + further);
}

}  // namespace booster::report
