// Times at which a GPU ran the work that threads queued on its streams. Two events surround each
// kernel. They are read when all work is done, which avoids waits in between. Thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace booster::kernels {

// The time of one kernel, in nanoseconds of the host's steady clock. Its length is exact to half a
// microsecond. Its position on the clock is exact to the latency with which a thread sees an event.
struct GpuTime {
  int device = -1;  // -1: not measured
  int64_t begin = 0, end = 0;
};
struct GpuTimes {
  int64_t first = 0;  // the number of the first
  std::vector<GpuTime> times;
};

namespace cuda {

// Marks the stream before the calling thread's next kernel; returns -1 if that fails.
int64_t begin_time() noexcept;
// Marks the stream again, after that kernel.
void end_time(int64_t number) noexcept;
// Returns the times of all kernels begun since the last call; waits for them. Throws if the GPU has
// failed, in which case these times are lost.
GpuTimes take_times();

}  // namespace cuda
}  // namespace booster::kernels
