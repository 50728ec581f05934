// Restarts this test program as ranks that are started by hand: with torchrun's variables and one
// MASTER_PORT, but nothing else that identifies the ranks of one run.
#pragma once

#include "tests/booster/temporary_folder.h"
#include "tests/parallel/ranks.h"

#include <map>
#include <string>
#include <vector>

#include <sys/types.h>

class ByHand {
 public:
  struct Rank {
    int rank = 0, size = 1;
    std::map<std::string, std::string> environment = {};
    std::vector<std::string> arguments = {};  // after the arguments that select the test case
    int delay_ms = 0;                    // before it starts
  };

  // `test_case` is the name of a test case with doctest::skip().
  explicit ByHand(std::string test_case);
  ~ByHand();
  ByHand(const ByHand&) = delete;

  void start(const Rank& rank);
  pid_t pid(size_t index) const { return pids_[index]; }
  // Waits for one process, counted in start order; kills it if it takes longer.
  RankResult wait_for(size_t index, double seconds = 300);
  std::vector<RankResult> wait(double seconds = 300);
  // Returns the folder where they meet. It need not exist.
  const std::string& meeting_place() const { return meeting_place_; }

 private:
  const booster::TemporaryFolder folder_;
  std::string test_case_, port_, meeting_place_;
  std::vector<pid_t> pids_;
};
