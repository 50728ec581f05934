// Connects the run tools of a run that you start separately on each machine (--nnodes). So all
// restart their ranks when the ranks of one have failed. For one thread at a time.
#pragma once

#include "parallel/rendezvous/store/store.h"
#include "tools/run/options.h"
#include "tools/run/supervisor.h"

#include <memory>
#include <optional>
#include <string>

namespace booster {

class ToolCircle {
 public:
  // Meets the others at the port after --master_port. Throws if they do not all arrive within
  // BOOSTER_TIMEOUT seconds, or if they were started with different arguments.
  explicit ToolCircle(const RunOptions& options);

  // Returns why the ranks of attempt `attempt` must stop: another machine's ranks have failed, or
  // its tool is gone. Returns "" if all is well. Never waits.
  std::string trouble(int attempt);

  // Reports this machine's outcome and waits for the outcomes of all. Returns the outcome of the
  // attempt, the same on all machines: whether it succeeded, or may be tried again.
  Outcome agree(int attempt, const Outcome& own);

 private:
  // Returns nothing while an outcome is missing.
  std::optional<Outcome> outcome_of_all(int attempt, const Outcome& own);
  std::string lost_tool();

  int node_, nodes_;
  std::unique_ptr<StoreRendezvous> meeting_;
};

}  // namespace booster
