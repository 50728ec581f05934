// How long nothing has been heard of somebody, as far as this process was there to hear it: while
// it was stopped itself, or its machine was, nobody is to blame. One thread at a time.
#pragma once

#include <algorithm>
#include <chrono>

namespace booster {

class Silence {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Silence(Clock::time_point now) : looked_(now) {}
  // Something has been heard.
  void end() { length_ = {}; }
  // To be called some times per second. Calls that lie more than a second apart count as a second.
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
