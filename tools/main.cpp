// The `booster` program: one subcommand per task, a row of commands/commands.def each.
#include "booster/config/config.h"
#include "platform/program.h"
#include "platform/error.h"
#include "platform/json/json_document.h"
#include "tools/commands/commands.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <sstream>

namespace {

using namespace booster;

struct Command {
  std::string name;
  const char* help;
  cli::Action (*declare)(CLI::App& line);
};

std::string with_dashes(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

const std::vector<Command>& commands() {
  static const std::vector<Command> all = {
#define COMMAND(name, help) {with_dashes(#name), help, cli::name##_command},
#include "tools/commands/commands.def"
  };
  return all;
}

// Shows the commands of a command below it.
class TreeFormatter : public CLI::Formatter {
 public:
  std::string make_subcommand(const CLI::App* command) const override {
    std::string text = CLI::Formatter::make_subcommand(command);
    for (const CLI::App* below : command->get_subcommands(nullptr)) {
      std::stringstream line;
      CLI::detail::format_help(line, "  " + below->get_name(), below->get_description(),
                               get_column_width());
      text += line.str();
    }
    return text;
  }
};

// Answers the program's own options.
int answer_options(const std::vector<std::string>& words) {
  CLI::App app("Trains a model in the precision you choose and on the machines you have.",
               "booster");
  app.formatter(std::make_shared<TreeFormatter>());
  app.set_version_flag("--version", std::string("booster ") + version);
  app.require_subcommand(1);
  for (const Command& command : commands())
    command.declare(*app.add_subcommand(command.name, command.help));
  parse_command_line(app, words);
  return 0;
}

int run(const std::vector<std::string>& words) {
  if (words.empty() || words[0].starts_with("-")) return answer_options(words);
  std::vector<std::string> names;
  for (const Command& command : commands()) names.push_back(command.name);
  const auto found = std::ranges::find(commands(), words[0], &Command::name);
  check(found != commands().end(), "booster: unknown command; got {}{}", show_text(words[0]),
        legal_names(words[0], names));
  CLI::App line(found->help, "booster " + found->name);
  const cli::Action action = found->declare(line);
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  return parse_command_line(line, rest) ? action(rest) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  booster::report_uncaught_errors();
  const int code = run({argv + std::min(argc, 1), argv + argc});
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    booster::fail_run("standard output: cannot be written: {}", std::strerror(errno));
  return code;
}
