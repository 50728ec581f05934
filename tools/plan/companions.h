// Processes that do the same work while this process measures, like the other ranks of a machine.
// They use their share of its memory bandwidth, caches and clock.
#pragma once

#include <sys/types.h>

#include <functional>
#include <vector>

namespace booster::plan {

class Companions {
 public:
  // Forks copies of this process; they wait. Call it before this process has used several threads,
  // since a copy only has the calling thread. Throws if the system refuses.
  Companions(int count, const std::function<void()>& work);
  // Ends the processes; they also end with the thread that made them.
  ~Companions();
  Companions(const Companions&) = delete;

  // Makes each process repeat `work` from now on. Ignores errors in it, because the caller's own
  // work fails in the same way.
  void begin();

 private:
  void end();

  int start_ = -1;  // the pipe that the processes wait at
  std::vector<pid_t> processes_;
};

}  // namespace booster::plan
