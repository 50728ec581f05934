// Reports a long wait for other ranks while it lasts: after BOOSTER_SLOW_WAIT seconds (10), then at
// intervals that double. It writes to stderr. With a run tool it writes a note instead, and the
// tool reports for all ranks. One thread at a time.
#pragma once

#include "parallel/rendezvous/rank_notes.h"

#include <functional>
#include <string>

namespace booster {

class SlowWait {
 public:
  // Begins a wait of rank `rank`.
  explicit SlowWait(int rank);
  ~SlowWait();  // ends the wait
  SlowWait(const SlowWait&) = delete;

  // Call it a few times per second while the wait lasts. When a report is due it calls `waits_for`
  // for the awaited rank, such as "rank 1 (pid 4242 on host)", and `where` for the operation.
  void still(const std::function<std::string()>& waits_for,
             const std::function<std::string()>& where);

 private:
  int rank_;
  double since_, next_;  // seconds of the monotonic clock
  bool noted_ = false;
};

}  // namespace booster
