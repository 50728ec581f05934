#include "booster/config/options/option_tables.h"
#include "booster/config/registry.h"
#include "platform/json/json_document.h"
#include "tools/commands/commands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace booster::cli {

namespace {

template <class Entries>
void print_entries(const char* title, const Entries& entries) {
  fmt::print("{}\n", title);
  for (const auto& entry : entries) fmt::print("  {:<14} {}\n", entry.name, entry.description);
}

template <class Entry>
void print_options(const char* kind, const Entry& entry) {
  fmt::print("{} ({}): {}\n", entry.name, kind, entry.description);
  if (entry.options.empty())
    fmt::print("  no options\n");
  else
    fmt::print("{}", describe(entry.options));
}

using Json = nlohmann::ordered_json;

template <class Entries>
Json json_of_entries(const Entries& entries) {
  Json list = Json::array();
  for (const auto& entry : entries)
    list.push_back({{"name", entry.name}, {"description", entry.description}});
  return list;
}

// Prints the options as JSON schemas with type, default, limits and description.
template <class Entry>
void print_json(const char* kind, const Entry& entry) {
  Json options = Json::object();
  for (const Option& option : entry.options) options[option.name] = schema_of(option);
  const Json json = {{"name", entry.name},
                     {"kind", kind},
                     {"description", entry.description},
                     {"options", options}};
  fmt::print("{}\n", json.dump());
}

int list_all(bool json) {
  const auto& plugins = plugin_registry().entries();
  const auto& strategies = precision_registry().entries();
  if (json) {
    const Json all = {{"plugins", json_of_entries(plugins)},
                      {"strategies", json_of_entries(strategies)}};
    fmt::print("{}\n", all.dump());
    return 0;
  }
  print_entries("plugins (booster.plugin)", plugins);
  print_entries("precision strategies (booster.mixed_precision)", strategies);
  fmt::print("`booster list NAME` shows the options.\n");
  return 0;
}

void refuse_options_of_ops(const std::string& name, const ListOps& ops) {
  for (const auto& [option, value] : {std::pair{"--strategy", ops.strategy},
                                      {"--level", ops.level},
                                      {"--device", ops.device},
                                      {"--set", ops.settings.empty() ? "" : ops.settings.front()}})
    check(value.empty(), "list: {} belongs to `booster list ops`; got {} {}", option,
          name.empty() ? "no name" : name, option);
}

int list(const std::string& name, const std::vector<std::string>& libraries, bool json) {
  for (const auto& library : libraries) load_library(library);
  if (name.empty()) return list_all(json);
  const auto& plugins = plugin_registry();
  const auto& strategies = precision_registry();
  const auto* plugin = plugins.get(name);
  const auto* strategy = strategies.get(name);
  auto names = plugins.names();
  for (const auto& strategy_name : strategies.names()) names.push_back(strategy_name);
  names.push_back("ops");
  check(plugin || strategy, "list: unknown name; got {}{}", show_text(name),
        legal_names(name, names));
  const auto print = [json](const char* kind, const auto& entry) {
    json ? print_json(kind, entry) : print_options(kind, entry);
  };
  if (plugin) print("plugin", *plugin);
  if (strategy) print("precision strategy", *strategy);
  return 0;
}

}  // namespace

Action list_command(CLI::App& line) {
  struct Values {
    std::string name;
    Words libraries;
    ListOps ops;
  };
  const auto values = std::make_shared<Values>();
  line.add_option("NAME", values->name, "a plugin or a strategy; ops: how --strategy treats ops");
  ListOps& ops = values->ops;
  line.add_option("--strategy", ops.strategy, "with ops: the strategy");
  line.add_option("--level", ops.level, "with ops: the level of fp16_apex or fp16_paddle");
  line.add_option("--device", ops.device, "with ops: cuda (the default) or cpu");
  line.add_option("--set", ops.settings,
                  "with ops: key=value, as for explain: dtype, custom_white_list, static_graph")
      ->allow_extra_args(false);
  line.add_flag("--json", ops.json, "one JSON object; with ops one per line");
  add_libraries(line, values->libraries);
  return [values](const Words&) {
    if (values->name == "ops") return list_ops(values->ops);
    refuse_options_of_ops(values->name, values->ops);
    return list(values->name, values->libraries, values->ops.json);
  };
}

}  // namespace booster::cli
