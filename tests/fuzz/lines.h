// Runs a command of the `booster` program that answers lines of standard input.
#pragma once

#include "platform/program.h"
#include "tests/fuzz/target.h"
#include "tools/commands/commands.h"

#include <CLI/CLI.hpp>

#include <iostream>
#include <sstream>

namespace booster::fuzz {

// `declare` is cli::scaler_command or cli::explain_command. With --json all answers, including
// errors, go to standard output, which is discarded.
inline void answer_lines(cli::Action (*declare)(CLI::App&), std::string_view text) {
  static const bool silent = std::freopen("/dev/null", "w", stdout) != nullptr;
  promise(silent, "standard output can be thrown away");
  std::istringstream lines{std::string(text)};
  std::streambuf* const own = std::cin.rdbuf(lines.rdbuf());
  std::cin.clear();
  accepts([&] {
    const cli::Words words = {"-", "--json"};
    CLI::App line;
    const cli::Action action = declare(line);
    if (parse_command_line(line, words)) action(words);
  });
  std::cin.rdbuf(own);
}

}  // namespace booster::fuzz
