#include "booster/cli/commands.h"
#include "booster/config.h"
#include "booster/config_layout.h"
#include "booster/library.h"
#include "booster/pairing.h"

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

}  // namespace

int list(const std::string& name, const std::vector<std::string>& libraries) {
  for (const auto& library : libraries) load_library(library);
  const auto& plugins = plugin_registry();
  const auto& strategies = precision_registry();
  if (name.empty()) {
    print_entries("plugins (booster.plugin)", plugins.entries());
    print_entries("precision strategies (booster.mixed_precision)", strategies.entries());
    fmt::print("`booster list NAME` shows the options.\n");
    return 0;
  }
  const auto* plugin = plugins.get(name);
  const auto* strategy = strategies.get(name);
  auto names = plugins.names();
  for (const auto& strategy_name : strategies.names()) names.push_back(strategy_name);
  check(plugin || strategy, "list: unknown name; got {}{}", show_text(name),
        legal_names(name, names));
  if (plugin) print_options("plugin", *plugin);
  if (strategy) print_options("precision strategy", *strategy);
  return 0;
}

int check_config(const std::string& path) {
  const Config config = Config::from_file(path);
  const auto plugin = plugin_registry().make(config.options("booster.plugin"));
  const auto precision = precision_registry().make(config.options("booster.mixed_precision"));
  check_pair(*precision, *plugin, typical_layout(*plugin));
  fmt::print("{}: valid\n", path);
  return 0;
}

int print_config_schema(const std::vector<std::string>& libraries) {
  for (const auto& library : libraries) load_library(library);
  fmt::print("{}\n", config_schema().dump(2));
  return 0;
}

}  // namespace booster::cli
