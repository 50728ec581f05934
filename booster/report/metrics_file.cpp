#include "booster/report/metrics_file.h"

#include "booster/report/chart.h"
#include "platform/files/read_line.h"
#include "platform/json/json_text.h"

#include <fmt/format.h>

namespace booster::report {

namespace {

using Json = nlohmann::json;

constexpr size_t longest_line = size_t{1} << 20;

// Returns true after a last line without its end: a run is still writing it, or a power cut tore
// it.
bool is_torn(std::ifstream& file, const std::filesystem::path& path) {
  if (file.rdbuf()->sgetc() != std::ifstream::traits_type::eof()) return false;
  std::ifstream end = open_regular(path);
  end.seekg(-1, std::ios::end);
  return end.get() != '\n';
}

}  // namespace

std::vector<std::pair<double, double>> MetricsFile::series(const std::string& key) const {
  std::vector<std::pair<double, double>> points;
  for (const Json& line : lines) {
    const auto step = line.find("step"), value = line.find(key);
    if (step != line.end() && value != line.end() && step->is_number() && value->is_number())
      points.emplace_back(step->get<double>(), value->get<double>());
  }
  return points;
}

std::string MetricsFile::describe_left_out() const {
  if (left_out.empty()) return "";
  constexpr size_t most_ranges = 10;
  std::string text = left_out.size() == 1 ? "line " : "lines ";
  size_t ranges = 0;
  for (size_t i = 0; i < left_out.size(); ++ranges) {
    size_t end = i + 1;
    while (end < left_out.size() && left_out[end].line == left_out[end - 1].line + 1) ++end;
    if (ranges == most_ranges) {
      text += fmt::format(" and {} more", left_out.size() - i);
      break;
    }
    text += fmt::format("{}{}", ranges ? ", " : "", left_out[i].line);
    if (end > i + 1) text += fmt::format(" to {}", left_out[end - 1].line);
    i = end;
  }
  return text + fmt::format(" (line {}: {})", left_out[0].line, left_out[0].reason);
}

MetricsFile read_metrics(const std::filesystem::path& path) {
  MetricsFile metrics;
  std::ifstream file = open_regular(path);
  metrics.readable = file.is_open();
  int64_t number = 0;
  for (std::string line; metrics.readable && read_line(file, line, longest_line);) {
    ++number;
    if (line.size() > longest_line) {
      metrics.left_out.push_back({number, "too long"});
      skip_line(file);
      continue;
    }
    Json object = json_if_whole<Json>(line);
    if (object.is_discarded() && is_torn(file, path)) break;
    if (object.is_object())
      metrics.lines.push_back(std::move(object));
    else
      metrics.left_out.push_back({number, object.is_discarded() ? "not JSON" : "no JSON object"});
  }
  return metrics;
}

std::string curves_file(const MetricsFile& metrics) {
  struct Row {
    const char *title, *key;
    int colour;
    bool dots;
  };
  constexpr Row rows[] = {{"training loss", "loss", 1, false},
                          {"learning rate", "lr", 7, false},
                          {"validation accuracy (top 1)", "val_top1", 0, true}};
  std::vector<Chart> charts;
  for (const Row& row : rows) {
    ChartLine line = {.name = row.key, .colour = row.colour, .dots = row.dots, .points = {}};
    for (const auto& [step, value] : metrics.series(row.key)) line.points.push_back({step, value});
    charts.push_back({.title = row.title, .lines = {std::move(line)}});
  }
  return chart_file(charts);
}

std::string curves_file(const std::filesystem::path& metrics) {
  return curves_file(read_metrics(metrics));
}

nlohmann::json json_of(std::string_view text) { return json_if_whole(text); }

}  // namespace booster::report
