#include "tools/commands/commands.h"

#include <CLI/CLI.hpp>

namespace booster::cli {

void add_libraries(CLI::App& line, std::vector<std::string>& paths) {
  line.add_option("--library", paths, "a shared library with your own plugins or strategies")
      ->allow_extra_args(false);
}

void add_json(CLI::App& line, bool& json) { line.add_flag("--json", json, "one JSON object"); }

}  // namespace booster::cli
