// A wait for other ranks that is told while it lasts: after BOOSTER_SLOW_WAIT seconds (10), then
// each time after twice as long, on stderr, or by a note to the run tool, which then tells it for
// all ranks. One thread at a time.
#pragma once

#include "parallel/rendezvous/rank_notes.h"

#include <functional>
#include <string>

namespace booster {

class SlowWait {
 public:
  // The wait of rank `rank` begins.
  explicit SlowWait(int rank);
  ~SlowWait();  // it is over
  SlowWait(const SlowWait&) = delete;

  // To be called while it lasts, some times per second. `what` is called if it is time to tell: for
  // whom the rank waits, as "rank 1 (pid 4242 on host)", and where.
  void still(const std::function<std::string()>& waits_for,
             const std::function<std::string()>& where);

 private:
  int rank_;
  double since_, next_;  // seconds of the monotonic clock
  bool noted_ = false;
};

}  // namespace booster
