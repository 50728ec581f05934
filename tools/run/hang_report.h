// Reports, while a run hangs, which rank the others wait for, from the notes of the waiting ranks.
#pragma once

#include "parallel/rendezvous/rank_notes.h"

#include <map>
#include <string>

namespace booster {

class HangReport {
 public:
  // Returns a report without a line break, or "" if none is due. The first is due when all notes
  // have arrived; each later one after twice the time. `waits`: the ranks that have waited long, by
  // label ("rank 0"). `doing`: the known activities of ranks, such as "saves a checkpoint".
  std::string due(const std::map<std::string, LongWait>& waits,
                  const std::map<std::string, std::string>& doing);

 private:
  size_t seen_ = 0;
  double next_ = 0;  // seconds of waiting
};

}  // namespace booster
