// `booster run [options] PROGRAM [ARGS...]`: starts and supervises the ranks of a run.
//
// No rank survives the run, however it ends, even if this process is killed. The program gets its
// arguments unchanged; no shell interprets them.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace booster {

struct RunOptions;

// Runs the words after `run` on the command line. Returns the exit code: 0 for success, or 2 for a
// usage error, which it reports on stderr. Otherwise it is the code of the first failed rank (128 +
// signal if it was killed). Call it from the main thread.
int run_tool(const std::vector<std::string>& args);
// Does the same for a line that `declare_run_options` has declared, once it is parsed.
int run_declared(const CLI::App& app, RunOptions options);

}  // namespace booster
