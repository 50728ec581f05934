// Commands that answer questions (`booster scaler`, `booster explain`): one from the command line,
// or one per line of standard input, so that a program can ask many without starting many.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace booster::cli {

using Words = std::vector<std::string>;

// Where a question came from: a line of standard input (counted from 1), or 0 for the command line.
using Answer = std::function<int(const Words& words, int line)>;

// The words of a line, as a shell would part them: blanks separate, quotes and backslashes keep.
// Error if a quote is left open.
Words words_of(const std::string& line);

// Calls `answer` for every line of standard input, `fixed` put before its words; empty lines and
// comments (#) are passed over. An Error of one line goes to standard error (with `json` to
// standard output, as {"line": 3, "error": "..."}) and the next line follows. Returns the largest
// exit code.
int answer_lines(const Words& fixed, bool json, const Answer& answer);

}  // namespace booster::cli
