#include "booster/report/metrics_file.h"
#include "booster/report/run_files.h"
#include "tools/report/page/sections.h"

#include <fmt/format.h>

#include <map>

namespace booster::report {

namespace {

using Json = nlohmann::json;
using Settings = std::map<std::string, std::string>;  // "optimizer.lr" -> "0.0005"

void flatten(const Json& value, const std::string& path, Settings& settings) {
  if (!value.is_object() || value.empty()) {
    settings[path] = value.is_string() ? value.get<std::string>() : value.dump();
    return;
  }
  for (const auto& [key, member] : value.items())
    flatten(member, path.empty() ? key : path + "." + key, settings);
}

// Returns the config and everything else that determines a result.
Settings settings_of(const RunFolder& run) {
  Settings settings;
  flatten(part_of(run.record, {"config"}), "", settings);
  settings.erase("");  // an absent config
  for (const char* part : {"ranks", "machine", "versions", "git", "command"})
    if (const Json& value = part_of(run.record, {part}); !value.is_null())
      flatten(value, fmt::format("({})", part), settings);
  return settings;
}

std::string cell(const Settings& settings, const std::string& name) {
  const auto found = settings.find(name);
  return found == settings.end() ? "<span class=\"none\">-</span>"
                                 : "<code>" + markup_text(found->second) + "</code>";
}

std::string differences(const Runs& runs, const std::vector<Settings>& all) {
  Settings names;
  for (const Settings& settings : all) names.insert(settings.begin(), settings.end());
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, value] : names) {
    std::vector<std::string> row = {"<code>" + markup_text(name) + "</code>"};
    bool differs = false;
    for (const Settings& settings : all) {
      row.push_back(cell(settings, name));
      differs = differs || row.back() != row[1];
    }
    if (differs) rows.push_back(std::move(row));
  }
  if (rows.empty()) return "<p>All settings of these runs are the same.</p>\n";
  std::vector<std::string> head = {"setting"};
  for (size_t i = 0; i < runs.size(); ++i) head.push_back(run_label(runs, i));
  return markup_table(head, rows);
}

}  // namespace

std::string config_section(const Runs& runs) {
  std::vector<Settings> all;
  for (const RunFolder& run : runs) all.push_back(settings_of(run));
  std::string body = runs.size() > 1 ? differences(runs, all) : "";
  for (size_t i = 0; i < runs.size(); ++i) {
    if (all[i].empty()) continue;
    std::vector<std::vector<std::string>> rows;
    for (const auto& [name, value] : all[i])
      rows.push_back({"<code>" + markup_text(name) + "</code>", cell(all[i], name)});
    body += fmt::format("<details><summary>all settings of {}</summary>\n{}</details>\n",
                        run_label(runs, i), markup_table({"setting", "value"}, rows));
  }
  return section("config", runs.size() > 1 ? "What differs" : "Settings", body);
}

}  // namespace booster::report
