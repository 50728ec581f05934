// Processes that do the same work while something is measured here, as the other ranks of a machine
// will: they take their share of its memory's bandwidth, caches and clock.
#pragma once

#include <sys/types.h>

#include <functional>
#include <vector>

namespace booster::plan {

class Companions {
 public:
  // Copies of this process, which do nothing yet. To be called before anything here has used
  // several threads: a copy has but the calling one. Error if the system refuses.
  Companions(int count, const std::function<void()>& work);
  // Ends them; they also end with the thread that made them.
  ~Companions();
  Companions(const Companions&) = delete;

  // From now on each does `work` again and again. An error in it is not told: it is the same that
  // the caller will meet.
  void begin();

 private:
  void end();

  int start_ = -1;  // the pipe that they wait at
  std::vector<pid_t> processes_;
};

}  // namespace booster::plan
