// Restarts this test program as the ranks of a run: each runs one skipped test case.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

struct RankResult {
  int status;  // as from waitpid
  std::string output;
  bool passed() const { return status == 0; }
};

// Returns whether the library was built with the backend.
bool has_backend(const std::string& name);
// Variables that select one way to connect ranks, and its name.
struct Connection {
  std::string name;
  std::map<std::string, std::string> environment;
  std::map<std::string, std::string> with(std::map<std::string, std::string> more) const;
};
// Returns the built-in backends that work for any processes on one machine. Excluded are MPI, which
// needs mpirun, NCCL, which needs GPUs, and the backend for several machines.
std::vector<std::string> free_backends();
// Returns connections over those backends, plus two over a store: Gloo, and the automatic choice
// with the first two ranks on one machine and the others on a second. The latter uses shared
// memory, and Gloo for more than two ranks.
std::vector<Connection> connections();
// Returns "tcp://127.0.0.1:PORT" with a free port, and a secret.
Connection over_store();

class Ranks {
 public:
  // `test_case` is the name of a test case with doctest::skip(). It runs in `size` processes with
  // torchrun's variables; the given ones take precedence. With TEST_OVER_STORE in this process's
  // environment the ranks meet at a store, as on several machines. TEST_MACHINES=2+1 gives the
  // first two ranks one BOOSTER_MACHINE and all others a second one.
  Ranks(const std::string& test_case, int size,
        const std::map<std::string, std::string>& environment = {});
  ~Ranks();
  pid_t pid(int rank) const { return pids_[rank]; }
  // Returns the folder of the ranks' rendezvous; a test may put its own files into it.
  const std::string& folder() const { return folder_; }
  // Waits for all; kills ranks that take longer than `seconds`, at least five minutes, times
  // TEST_PATIENCE (sanitizers make everything slow).
  std::vector<RankResult> wait(double seconds = 60);
  // Blocks until the file appears in the folder, at most five minutes.
  void wait_for_file(const std::string& name) const;

 private:
  std::string folder_;
  std::vector<pid_t> pids_;
};

// Runs a rank's test case under mpirun, over MPI. Returns the output if a rank failed. Returns ""
// if all passed, if there is no working mpirun, or if the backend is missing.
std::string failures_over_mpi(const std::string& test_case, int size);

// In such a rank: returns the folder of its `Ranks`; puts an empty file into it.
std::string test_folder();
void touch(const std::string& name);

// Returns the outputs of the ranks that failed; "" if all passed.
std::string failures(const std::vector<RankResult>& results);

// Runs the test case on `size` ranks; a doctest check that all pass.
void run_ranks(const std::string& test_case, int size, double seconds = 400);
