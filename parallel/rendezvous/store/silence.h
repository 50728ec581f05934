// How long a peer has been silent, counting only time in which this process could hear it: time
// during which it or its machine was stopped does not count. One thread at a time.
#pragma once

#include <algorithm>
#include <chrono>

namespace booster {

class Silence {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Silence(Clock::time_point now) : looked_(now) {}
  // The peer has sent something.
  void end() { length_ = {}; }
  // Call it a few times per second. A gap of more than a second counts as one second.
  Clock::duration length(Clock::time_point now) {
    length_ += std::min<Clock::duration>(now - looked_, std::chrono::seconds(1));
    looked_ = now;
    return length_;
  }

 private:
  Clock::time_point looked_;
  Clock::duration length_{};
};

}  // namespace booster
