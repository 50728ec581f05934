// How the threads of the kernels' loops wait for each other: spinning while processors are free,
// asleep where others want them. Thread-safe.
//
// A thread that spins keeps a processor that another one needs, often the one that it waits for:
// on two processors with a load of eight, a loop of 20 us takes 2 to 20 ms with libgomp's default,
// which spins for about three milliseconds, and 0.1 ms if threads sleep. On an idle machine sleep
// costs: a loop of 18 us takes 50 to 90. So it depends on what the machine does meanwhile.
#pragma once

#include <cstdint>

namespace booster::kernels {

// Called at every use of a kernel; a few nanoseconds. Under libgomp: looks now and then at how long
// the calling thread stood in line for a processor, and lets waiting threads sleep while that is
// long. Under libomp (clang's), which spins for 200 ms: asks for three once. Does nothing where
// GOMP_SPINCOUNT, KMP_BLOCKTIME or OMP_WAIT_POLICY has decided, nor where Linux does not tell
// (/proc/thread-self/schedstat).
void adapt_waiting();

// Whether threads that wait sleep at once, by the above.
bool waiting_sleeps();

// Says from the time that a thread stood in line whether the machine is crowded.
class Crowding {
 public:
  static constexpr int64_t window = 50'000'000;  // ns

  // What was seen at `now`, with `delayed` in all so far, both in ns; true if it is crowded. Looks
  // only once a window.
  bool seen(int64_t now, int64_t delayed);
  bool due(int64_t now) const { return now - began_ >= window; }

 private:
  int64_t began_ = 0, delayed_ = 0;
  int calm_ = calm_windows;  // windows in a row, up to this many

  // On an idle machine threads stand in line for 0.1 to 1.5 % of the time; beside one busy process
  // for 18 to 50 % if they spin and for 24 to 30 if they sleep.
  static constexpr double crowded_share = 0.15, calm_share = 0.05;
  static constexpr int calm_windows = 5;
};

}  // namespace booster::kernels
