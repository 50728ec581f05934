// Runs a command of the `booster` program that answers lines of standard input.
#pragma once

#include "tools/commands/commands.h"
#include "tests/fuzz/target.h"

#include <iostream>
#include <sstream>

namespace booster::fuzz {

// `command` is cli::scaler or cli::explain_op. With --json all answers, including errors, go to
// standard output, which is discarded.
inline void answer_lines(int (*command)(const std::vector<std::string>&), std::string_view text) {
  static const bool silent = std::freopen("/dev/null", "w", stdout) != nullptr;
  promise(silent, "standard output can be thrown away");
  std::istringstream lines{std::string(text)};
  std::streambuf* const own = std::cin.rdbuf(lines.rdbuf());
  std::cin.clear();
  accepts([&] { command({"-", "--json"}); });
  std::cin.rdbuf(own);
}

}  // namespace booster::fuzz
