// `booster run [options] PROGRAM [ARGS...]`: starts and supervises the ranks of a run.
//
// No rank is left behind however the run ends, even if this process is killed. The arguments reach
// the program unchanged; no shell interprets them.
#pragma once

#include <string>
#include <vector>

namespace booster {

// `args` are the words after `run` on the command line. Returns the exit code: 0; 2 for a usage
// error (reported on stderr); else the code of the first rank that failed, 128 + signal if it was
// killed. To be called from the main thread.
int run_tool(const std::vector<std::string>& args);

}  // namespace booster
