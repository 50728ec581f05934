// Tells while a run hangs which rank the others wait for, from the notes of those that wait.
#pragma once

#include "parallel/rendezvous/rank_notes.h"

#include <map>
#include <string>

namespace booster {

class HangReport {
 public:
  // What to tell, without a line break; "" if it is not time: it is told once the notes of all have
  // come, then each time after twice as long. `waits`: those that wait long now, by the label of
  // the rank ("rank 0"); `doing`: what is known of ranks, such as "saves a checkpoint".
  std::string due(const std::map<std::string, LongWait>& waits,
                  const std::map<std::string, std::string>& doing);

 private:
  size_t seen_ = 0;
  double next_ = 0;  // seconds of waiting
};

}  // namespace booster
