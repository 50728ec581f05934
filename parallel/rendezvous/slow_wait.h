// Reports a long wait for other ranks while it lasts: after BOOSTER_SLOW_WAIT seconds (10), then at
// intervals that double. It writes to stderr, or a note to the run tool, which then reports it for
// all ranks. One thread at a time.
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

  // Call it a few times per second while the wait lasts. When a report is due it calls `waits_for`,
  // which names the awaited rank as "rank 1 (pid 4242 on host)", and `where`.
  void still(const std::function<std::string()>& waits_for,
             const std::function<std::string()>& where);

 private:
  int rank_;
  double since_, next_;  // seconds of the monotonic clock
  bool noted_ = false;
};

}  // namespace booster
