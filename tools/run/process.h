// Starts one process of a run, without a shell, so that it cannot outlive the launcher.
#pragma once

#include "parallel/rendezvous/place.h"

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace booster {

struct Launch {
  std::string label;     // "rank 1", or "node 1 (host)"
  std::string prefix;    // before each line of its output; "" passes bytes unchanged
  std::string log_path;  // "": no log
  std::string notes;     // the rank's BOOSTER_NOTES; "": not read
  std::string path;      // of the program
  std::vector<std::string> arguments;              // the first is the program's name
  std::map<std::string, std::string> environment;  // added to the launcher's own
  bool inherits_terminal = false;  // its output may go directly to the launcher's terminal
  bool holds_input = false;        // its standard input stays open while the launcher runs
  std::string input;               // with holds_input: the first input, at most a pipe's 64 KiB
};

struct Process {
  pid_t pid = -1;  // leads its own process group
  int out = -1;    // pipe ends of its output; -1 if it inherits the terminal
  int error = -1;
  int input = -1;  // with holds_input: end to keep open
};

// Starts the process. Throws an Error that names the program and the reason if it cannot. The
// process gets SIGKILL when the calling thread ends; SIGHUP, SIGINT, SIGTERM and SIGCHLD are
// unblocked in it.
Process start(const Launch& launch);

// A keeper process with a private folder, in memory if possible. When this process ends in any way,
// even by SIGKILL, the keeper kills the watched process groups and removes the folder. If the
// keeper is killed, supervise() reports it and the destructor cleans up instead. At its start the
// keeper removes leftovers of killed tools.
class Keeper {
 public:
  Keeper();
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;
  const std::string& folder() const { return folder_; }
  void watch(pid_t group) { tell(group); }
  void forget(pid_t group) { tell(-group); }

 private:
  void tell(pid_t message);
  std::string folder_;
  std::optional<Place> place_;  // marks the folder as in use, so that no other tool removes it
  pid_t pid_ = -1;
  int pipe_ = -1;
  bool lives_ = true;
};

}  // namespace booster
