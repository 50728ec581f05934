// The run tools on the machines of a run that is started on each of them (--nnodes), so that all
// start their ranks again when those of one have failed. One thread at a time.
#pragma once

#include "booster/run/options.h"
#include "booster/run/supervisor.h"
#include "parallel/rendezvous/store/store.h"

#include <memory>
#include <string>

namespace booster {

class ToolCircle {
 public:
  // Meets the others at the port that follows --master_port. Error if they do not all come within
  // BOOSTER_TIMEOUT seconds, or if they are started with other words.
  explicit ToolCircle(const RunOptions& options);

  // Why the ranks of attempt `attempt` must stop: those of another machine have failed, or its tool
  // is gone; "" while all is well. Never waits.
  std::string trouble(int attempt);

  // The ranks here have ended so. Waits until those of all machines have, and returns what that
  // makes of the attempt, on all machines alike: whether it succeeded, or may be tried again.
  Outcome agree(int attempt, const Outcome& own);

 private:
  std::string lost_tool();

  int node_, nodes_;
  std::unique_ptr<StoreRendezvous> meeting_;
};

}  // namespace booster
