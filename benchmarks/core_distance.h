// Measures how long two cores take to exchange a cache line. This distinguishes two virtual CPUs on
// one chiplet, which share its path to memory, from two on different chiplets.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <sched.h>

namespace booster::benchmarks {

// Returns the cores that this process may use.
inline std::vector<int> usable_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

inline void run_on(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

// Returns the round-trip nanoseconds between the first two cores, the minimum of some tries; 0 with
// one core.
inline double core_round_trip_ns() {
  constexpr int tries = 5, trips = 1000;
  const std::vector<int> cores = usable_cores();
  if (cores.size() < 2) return 0;
  double least = 1e9;
  for (int i = 0; i < tries; ++i) {
    alignas(128) std::atomic<int> line = 0;
    const auto wait_for = [&](int value) {
      while (line.load(std::memory_order_acquire) != value) {
      }
    };
    std::thread there([&] {
      run_on(cores[0]);
      for (int trip = 0; trip < trips; ++trip) {
        wait_for(2 * trip + 1);
        line.store(2 * trip + 2, std::memory_order_release);
      }
    });
    std::thread here([&] {
      run_on(cores[1]);
      const auto start = std::chrono::steady_clock::now();
      for (int trip = 0; trip < trips; ++trip) {
        line.store(2 * trip + 1, std::memory_order_release);
        wait_for(2 * trip + 2);
      }
      const std::chrono::duration<double, std::nano> took =
          std::chrono::steady_clock::now() - start;
      least = std::min(least, took.count() / trips);
    });
    there.join();
    here.join();
  }
  return least;
}

}  // namespace booster::benchmarks
