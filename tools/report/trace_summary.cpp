#include "tools/report/trace_summary.h"

#include "platform/files/read_line.h"
#include "platform/json/json_text.h"
#include "tools/report/run_folder.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <utility>

namespace booster::report {

namespace {

using Json = nlohmann::json;

constexpr size_t longest_event = size_t{64} << 10;
constexpr size_t most_names = 10'000;

std::string text_in(const Json& event, std::initializer_list<const char*> keys) {
  const Json& value = part_of(event, keys);
  return value.is_string() ? value.get<std::string>() : "";
}

double number_in(const Json& event, const char* key, double otherwise) {
  const Json& value = part_of(event, {key});
  return value.is_number() ? value.get<double>() : otherwise;
}

// Rows by name and dtype, in order of first appearance.
class Rows {
 public:
  void add(const Json& event) {
    const std::pair key(text_in(event, {"name"}), text_in(event, {"args", "dtype"}));
    const auto found = places_.find(key);
    if (found == places_.end() && rows_.size() == most_names) return;
    const size_t at = found == places_.end() ? rows_.size() : found->second;
    if (at == rows_.size()) {
      places_[key] = at;
      rows_.push_back({key.first, key.second});
    }
    ++rows_[at].calls;
    rows_[at].milliseconds += number_in(event, "dur", 0) * 1e-3;
  }
  std::vector<TraceRow> take() { return std::move(rows_); }

 private:
  std::map<std::pair<std::string, std::string>, size_t> places_;
  std::vector<TraceRow> rows_;
};

}  // namespace

TraceSummary summarize_trace(const std::filesystem::path& path) {
  TraceSummary summary;
  Rows phases, kernels;
  std::ifstream file = open_regular(path);
  for (std::string line; read_line(file, line, longest_event);) {
    if (line.size() > longest_event) {
      skip_line(file);
      ++summary.left_out;
      continue;
    }
    if (!line.starts_with("{\"pid\"")) continue;  // the list's own beginning and end
    if (line.ends_with(',')) line.pop_back();
    const Json event = json_if_whole<Json>(line);
    if (!event.is_object()) {
      ++summary.left_out;
      continue;
    }
    if (number_in(event, "pid", -1) != 0 || text_in(event, {"ph"}) != "X") continue;
    const bool main = number_in(event, "tid", -1) == 0;
    const std::string kind = text_in(event, {"cat"});
    if (main && kind == "phase") phases.add(event);
    if ((main && kind == "kernel") || kind == "gpu") kernels.add(event);
  }
  summary.phases = phases.take();
  summary.kernels = kernels.take();
  std::ranges::stable_sort(summary.kernels, std::greater(), &TraceRow::milliseconds);
  return summary;
}

}  // namespace booster::report
