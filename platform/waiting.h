// How the threads of the kernels' loops wait for each other: they spin while processors are free,
// and sleep if other threads need them. Thread-safe.
//
// A spinning thread occupies a processor that another thread needs, often the thread that it waits
// for. Example: two processors, a load of eight, a loop of 20 us. It takes 2 to 20 ms with
// libgomp's default, which spins for about three milliseconds, and 0.1 ms if threads sleep. On an
// idle machine sleep is slower: a loop of 18 us takes 50 to 90 us. So the choice follows the
// machine's load.
#pragma once

#include <cstdint>

namespace booster::kernels {

// Called at every use of a kernel; takes a few nanoseconds.
// - libgomp: checks now and then how long the calling thread queued for a processor. While that is
// long, waiting threads sleep.
// - libomp (clang's), which spins for 200 ms: requests three, once.
// Does nothing if GOMP_SPINCOUNT, KMP_BLOCKTIME or OMP_WAIT_POLICY is set, or if Linux does not
// report queueing times (/proc/thread-self/schedstat).
void adapt_waiting();

// Returns whether waiting threads sleep at once, as above.
bool waiting_sleeps();

// Decides from the time that a thread queued for a processor whether the machine is crowded.
class Crowding {
 public:
  static constexpr int64_t window = 50'000'000;  // ns

  // Takes the time `now` and the total queueing time `delayed`, both in ns; returns whether the
  // machine is crowded. Evaluates only once a window.
  bool seen(int64_t now, int64_t delayed);
  bool due(int64_t now) const { return now - began_ >= window; }

 private:
  int64_t began_ = 0, delayed_ = 0;
  int calm_ = calm_windows;  // calm windows in a row, up to this many

  // On an idle machine threads queue for 0.1 to 1.5 % of the time. Next to one busy process they
  // queue for 18 to 50 % if they spin, and for 24 to 30 % if they sleep.
  static constexpr double crowded_share = 0.15, calm_share = 0.05;
  static constexpr int calm_windows = 5;
};

}  // namespace booster::kernels
