// Timing for benchmarks, and the memory bandwidth as a reference.
#pragma once

#include "core/tensor/tensor.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <vector>

namespace booster::benchmarks {

// Returns the seconds of every run, sorted: front() is the minimum, [size / 2] the median.
template <class F>
std::vector<double> timed_runs(int runs, F&& body) {
  std::vector<double> seconds;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    seconds.push_back(took.count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds;
}

// Returns the CPU seconds of this process, over all threads. On a machine with other load they are
// more meaningful than elapsed time.
inline double core_seconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Returns the current memory bandwidth: GB/s of copying one large array, bytes read and written.
inline double copy_gbytes_per_s() {
  const Tensor from = ones({64 << 20});
  Tensor to = zeros_like(from);
  const auto seconds = timed_runs(5, [&] { to.copy_(from); });
  return 2e-9 * static_cast<double>(from.bytes()) / seconds.front();
}

}  // namespace booster::benchmarks
