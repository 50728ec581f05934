// Starts one process of a run, without a shell, so that it cannot outlive the launcher.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace booster {

struct Launch {
  std::string label;     // "rank 1", or "node 1 (host)"
  std::string prefix;    // before each line of its output; "" passes bytes unchanged
  std::string log_path;  // "": no log
  std::string path;      // of the program
  std::vector<std::string> arguments;              // the first is the program's name
  std::map<std::string, std::string> environment;  // added to the launcher's own
  bool inherits_terminal = false;  // its output may go directly to the launcher's terminal
  bool holds_input = false;        // its standard input stays open while the launcher runs
};

struct Process {
  pid_t pid = -1;  // leads its own process group
  int out = -1;    // pipe ends to read its output from; -1 where it inherits the terminal
  int error = -1;
  int input = -1;  // with holds_input: end to keep open
};

// Error, naming the program and the reason, if it cannot be started. The process gets SIGKILL when
// the calling thread ends; SIGHUP, SIGINT, SIGTERM and SIGCHLD are unblocked in it.
Process start(const Launch& launch);

// Kills process groups, then removes a folder, when this process ends in any way, even by SIGKILL.
class Keeper {
 public:
  explicit Keeper(const std::string& folder);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  void watch(pid_t group) { tell(group); }
  void forget(pid_t group) { tell(-group); }

 private:
  void tell(pid_t message);
  pid_t pid_ = -1;
  int pipe_ = -1;
};

}  // namespace booster
