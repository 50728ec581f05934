// The subcommands of the `booster` program: a file and a row of commands.def each.
//
// Each prints to standard output and returns the exit code; mistakes are Errors.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace booster::cli {

using Words = std::vector<std::string>;

// Runs a command once its line is parsed. `words` are the words after the command's name.
using Action = std::function<int(const Words& words)>;

// Each declares the command's options and arguments on `line` and returns the action, which keeps
// their values. Call it once for a line.
#define COMMAND(name, help) Action name##_command(CLI::App& line);
#include "tools/commands/commands.def"

// Declares --library and --json.
void add_libraries(CLI::App& line, std::vector<std::string>& paths);
void add_json(CLI::App& line, bool& json);

// `booster list ops`: every op on a strategy's lists with its class and source.
struct ListOps {
  std::string strategy, level, device;
  std::vector<std::string> settings;  // key=value, as for `booster explain`
  bool json = false;                  // an object per line
};
int list_ops(const ListOps& what);

}  // namespace booster::cli
