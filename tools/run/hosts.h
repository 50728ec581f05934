// The machines of a run, and the ssh command that starts the launcher on one of them.
#pragma once

#include "tools/run/options.h"

#include <string>
#include <vector>

namespace booster {

struct Host {
  std::string name;
  int slots = 0;  // ranks on it, or 0 if not given
  int port = 0;   // of ssh, or 0 if not given
};

// Returns the hosts from --host or --hostfile, --include and --exclude, in the order given; empty
// if none are given. A hostfile line is a name, optionally followed by `slots=N` or `port=N`; `#`
// begins a comment. Throws for an invalid host name, such as one that ssh would take for an option.
std::vector<Host> hosts_of(const RunOptions& options);
// Returns --nproc_per_node, else the host's slots, else 1. Throws if it exceeds the slots.
int ranks_on(const Host& host, const RunOptions& options);

// Quotes `text` as one word for a POSIX shell.
std::string shell_quoted(const std::string& text);
std::string shell_line(const std::vector<std::string>& words);

// Returns the variables that ranks on other machines get, as NAME=VALUE: those named BOOSTER_*,
// NCCL_*, GLOO_* or OMP_* and those of --env, without the secret.
std::vector<std::string> forwarded_variables(const RunOptions& options);
// Returns the ssh arguments that run `booster run` for node `node` in the same folder on that
// machine. They hold no variables: other users of a machine can read command lines.
std::vector<std::string> ssh_command(const RunOptions& options, const std::vector<Host>& hosts,
                                     int node);

}  // namespace booster
