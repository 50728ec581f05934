// `booster run [options] PROGRAM [ARGS...]`: starts the ranks of a run and answers for them.
//
// No rank is left behind, however the run ends, even when this process is killed. The arguments
// reach the program byte for byte; no shell sees them.
#pragma once

#include <string>
#include <vector>

namespace booster {

// `args` are what follows `run` on the command line. Returns the exit code: 0; 2 for a usage error
// (said on stderr); else the code of the first rank that failed, 128 + signal if it was killed.
// To be called from the main thread.
int run_tool(const std::vector<std::string>& args);

}  // namespace booster
