// Measures how long a peer has been silent. It excludes time during which this process or its
// machine was stopped. One thread at a time.
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
  // Returns the length of the silence. Call it a few times per second. A gap of more than a second
  // counts as one second.
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
