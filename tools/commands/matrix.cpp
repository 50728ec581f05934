#include "booster/config/options/option_tables.h"
#include "booster/config/pairing.h"
#include "booster/config/registry.h"
#include "tools/commands/commands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace booster::cli {

namespace {

struct Column {
  std::string title;
  Layout layout;
};

// Returns a column per plugin with its defaults, then one for each remaining axis of a mesh.
std::vector<Column> columns() {
  std::vector<Column> columns;
  for (const auto& plugin : plugin_registry().entries()) {
    const OptionValues options(default_values(plugin.options));
    columns.push_back({plugin.name, typical_layout(plugin, options)});
  }
  columns.push_back({"tensor 2", {.tensor = 2}});
  columns.push_back({"pipeline 2", {.pipeline = 2}});
  columns.push_back({"sequence 2", {.sequence = 2}});
  return columns;
}

struct RefusedPair {
  std::string strategy, column;
  Interaction answer;
};

struct Row {
  std::string title;
  std::unique_ptr<Precision> strategy;
};

// Returns one row for a strategy with its defaults, or a row for each of its levels or styles if
// their answers differ.
std::vector<Row> rows_of(const RegistryEntry<Precision>& entry) {
  std::vector<Row> rows;
  nlohmann::json values = default_values(entry.options);
  for (const Option& option : entry.options) {
    if (option.name != "level" && option.name != "opt_level" && option.name != "style") continue;
    const std::vector<std::string> apex = {"O0", "O1", "O2", "O3"};
    for (const auto& level : option.choices.empty() ? apex : option.choices) {
      values[option.name] = level;
      rows.push_back({entry.name + " " + level, entry.make(OptionValues(values))});
    }
    return rows;
  }
  rows.push_back({entry.name, entry.make(OptionValues(values))});
  return rows;
}

// Cells padded to fixed widths, except the last.
void print_row(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) line += fmt::format("{:<18}", cell);
  line.erase(line.find_last_not_of(' ') + 1);
  fmt::print("{}\n", line);
}

// Prints {"rows": [{"strategy", "answers": [{"layout", "supported"}]}]}; an unsupported layout also
// has "reason" and "instead".
int print_json() {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const auto& entry : precision_registry().entries())
    for (const auto& [title, strategy] : rows_of(entry)) {
      Json answers = Json::array();
      for (const auto& [column, layout] : columns()) {
        const Interaction answer = strategy->interaction(layout);
        Json cell = {{"layout", column}, {"supported", answer.supported}};
        if (!answer.supported)
          cell.update({{"reason", answer.reason}, {"instead", answer.instead}});
        answers.push_back(cell);
      }
      rows.push_back({{"strategy", title}, {"answers", answers}});
    }
  fmt::print("{}\n", Json{{"rows", rows}}.dump());
  return 0;
}

int matrix(const std::vector<std::string>& libraries, bool json) {
  for (const auto& library : libraries) load_library(library);
  if (json) return print_json();
  std::vector<std::string> titles = {"strategy"};
  std::vector<RefusedPair> refusals;
  const std::vector<Column> all = columns();
  for (const Column& column : all) titles.push_back(column.title);
  print_row(titles);
  for (const auto& entry : precision_registry().entries())
    for (const auto& [title, strategy] : rows_of(entry)) {
      std::vector<std::string> cells = {title};
      for (const auto& [column, layout] : all) {
        const Interaction answer = strategy->interaction(layout);
        cells.push_back(answer.supported ? "yes" : "no");
        if (!answer.supported) refusals.push_back({title, column, answer});
      }
      print_row(cells);
    }
  fmt::print("tensor, pipeline, sequence: axes with more ranks by hybrid_parallel's options\n");
  for (const auto& [strategy, column, answer] : refusals)
    fmt::print("{} with {}: {}; use {}\n", strategy, column, answer.reason, answer.instead);
  return 0;
}

}  // namespace

Action matrix_command(CLI::App& line) {
  struct Values {
    Words libraries;
    bool json = false;
  };
  const auto values = std::make_shared<Values>();
  add_libraries(line, values->libraries);
  add_json(line, values->json);
  return [values](const Words&) { return matrix(values->libraries, values->json); };
}

}  // namespace booster::cli
