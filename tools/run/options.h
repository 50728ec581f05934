// Command line of `booster run`.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace booster {

struct RunOptions {
  int nproc_per_node = 0;  // 0: the hostfile's number, or 1
  int nnodes = 1;
  int node_rank = 0;
  std::string master_addr;  // "": chosen by the launcher
  int master_port = 0;      // 0: chosen by the launcher
  std::string hostfile, host, include, exclude;
  int ssh_port = 0;              // 0: ssh's own setting
  std::vector<std::string> env;  // NAME or NAME=VALUE
  std::string log_dir;
  int max_restarts = 0;
  // Set for remote nodes that have a different number of ranks than others (0: the same number),
  // and at restarts.
  int first_rank = 0, world_size = 0, restart_count = 0;
  int grace = 30;  // seconds from a signal until ranks that still run are killed
  bool dry_run = false;
  bool stop_at_eof = false;  // treat the end of standard input as SIGTERM (set for remote nodes)
  bool env_at_stdin = false;         // it begins with variables (set for remote nodes)
  std::vector<std::string> command;  // the program and its arguments, unchanged
};

// Declares the options on an app that keeps the program and its arguments in `remaining()`.
void declare_run_options(CLI::App& app, RunOptions& result);
// Takes the program from the parsed line, and throws for options that exclude each other.
void finish_run_options(const CLI::App& app, RunOptions& result);

}  // namespace booster
