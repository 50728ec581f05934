// When a GPU ran what threads queued on its streams: two events around each kernel, which are read
// when all is done, so that nothing waits in between. Thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace booster::kernels {

// Of one kernel, in nanoseconds of the host's steady clock. Its length is known to half a
// microsecond; where it lies on that clock, to what it takes a thread to hear of an event.
struct GpuTime {
  int device = -1;  // -1: it has not been measured
  int64_t begin = 0, end = 0;
};
struct GpuTimes {
  int64_t first = 0;  // the number of the first
  std::vector<GpuTime> times;
};

namespace cuda {

// Marks the stream on which the calling thread's next kernel runs; -1 if that fails.
int64_t begin_time() noexcept;
// Marks it again, behind that kernel.
void end_time(int64_t number) noexcept;
// All that have begun since the last call; waits for them. Error of a GPU that works no more: then
// they are lost.
GpuTimes take_times();

}  // namespace cuda
}  // namespace booster::kernels
