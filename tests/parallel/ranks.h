// Starts this test program again as the ranks of a run: each runs one skipped test case.
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

// Whether the library was built with it.
bool has_backend(const std::string& name);
// Variables that make ranks use one way to exchange memory, and its name.
struct Connection {
  std::string name;
  std::map<std::string, std::string> environment;
  std::map<std::string, std::string> with(std::map<std::string, std::string> more) const;
};
// The backends that are built in and that any processes of one machine may use: not MPI, which
// needs mpirun, nor NCCL, which needs GPUs, nor that of several machines.
std::vector<std::string> free_backends();
// Those, and between ranks that meet at a store Gloo, and what they choose if the first two are on
// one machine and the others on a second one: shared memory, and with Gloo for more than two.
std::vector<Connection> connections();
// "tcp://127.0.0.1:PORT" with a port that is free, and a secret.
Connection over_store();

class Ranks {
 public:
  // `test_case` is the name of a test case with doctest::skip(); it runs in `size` processes with
  // torchrun's variables plus the given ones, which count more. With TEST_OVER_STORE in this
  // process's environment they meet at a store, as on several machines. TEST_MACHINES=2+1 gives the
  // first two ranks one BOOSTER_MACHINE and all others a second one.
  Ranks(const std::string& test_case, int size,
        const std::map<std::string, std::string>& environment = {});
  ~Ranks();
  pid_t pid(int rank) const { return pids_[rank]; }
  // The folder of the ranks' rendezvous; a test may put its own files into it.
  const std::string& folder() const { return folder_; }
  // Waits for all; kills those that take longer than `seconds`, or TEST_PATIENCE times as long: a
  // sanitizer makes everything slow.
  std::vector<RankResult> wait(double seconds = 60);
  // Blocks until the file appears in the folder, at most 60 seconds.
  void wait_for_file(const std::string& name) const;

 private:
  std::string folder_;
  std::vector<pid_t> pids_;
};

// Runs a rank's test case under mpirun, over MPI: its output if a rank failed, "" if all passed, or
// if there is no mpirun that works, or no such backend.
std::string failures_over_mpi(const std::string& test_case, int size);

// In such a rank: the folder of its `Ranks`, and an empty file put into it.
std::string test_folder();
void touch(const std::string& name);

// The outputs of the ranks that failed; "" if all passed.
std::string failures(const std::vector<RankResult>& results);

// Runs the test case on so many ranks: a doctest check that all pass.
void run_ranks(const std::string& test_case, int size, double seconds = 400);
