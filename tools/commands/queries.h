// Commands that answer queries (`booster scaler`, `booster explain`): one from the command line, or
// one per line of standard input. So a program can send many to one process.
#pragma once

#include "tools/commands/commands.h"

#include <functional>
#include <string>
#include <vector>

namespace booster::cli {

// Answers a query; `line` is its line of standard input (from 1), or 0 for the command line.
using Answer = std::function<int(const Words& words, int line)>;

// Splits a line into words like a shell: at blanks that are not quoted or escaped. Throws if a
// quote is not closed.
Words words_of(const std::string& line);

// Calls `answer` for every line of standard input, with `fixed` before the line's words. Skips
// empty lines and comments (#); a line over 4 MiB is an Error. An Error in one line goes to
// standard error (with `json` to standard output, as {"line": 3, "error": "..."}) and does not stop
// the others. Returns the largest exit code.
int answer_lines(const Words& fixed, bool json, const Answer& answer);

}  // namespace booster::cli
