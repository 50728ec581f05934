// Loops over a kernel's work: an OpenMP loop on the CPU, a grid of thread blocks under nvcc.
//
// A kernel's source describes one block of work. On the CPU one thread runs a block; its lanes are
// a vector loop. On the GPU a block of threads runs it; its lanes are the threads. Work is cut into
// blocks whose size does not depend on the number of threads, so every result is bit-identical for
// any number of threads. Compiled per variant: all code is in its namespace.
//
// KERNEL_FN marks plain functions that both host and device may call. ON_DEVICE marks code that
// runs on the data's device: `for_each_block(n, [=] ON_DEVICE(int64_t block) { ... })`. Such a body
// captures only plain data, by value.
#pragma once

#include "kernels/arguments/view.h"

#ifdef BOOSTER_ON_GPU
#include "kernels/cuda/launch.cuh"
#else
#include <omp.h>
#define KERNEL_FN inline __attribute__((always_inline))
#define ON_DEVICE

namespace booster::kernels::BOOSTER_VARIANT {

// Calls body(block) for block in [0, blocks), in parallel if there is more than one.
template <class Body>
void for_each_block(int64_t blocks, Body&& body) {
  if (blocks <= 1 || omp_get_max_threads() == 1 || omp_in_parallel()) {
    for (int64_t i = 0; i < blocks; ++i) body(i);
    return;
  }
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < blocks; ++i) body(i);
}

// Does the same; `at_once` blocks should fit on a GPU's multiprocessor (kernels/cuda/launch.cuh).
template <int at_once, class Body>
void for_each_block(int64_t blocks, Body&& body) {
  for_each_block(blocks, body);
}

// Calls body(begin, end) for consecutive ranges of `grain` items of [0, n).
template <class Body>
void for_each_range(int64_t n, int64_t grain, Body&& body) {
  for_each_block((n + grain - 1) / grain, [&](int64_t block) {
    const int64_t begin = block * grain;
    body(begin, begin + grain < n ? begin + grain : n);
  });
}

// Returns the items per range, so that a range has about 32 KB of 4-byte elements.
constexpr int64_t grain_for(int64_t elements_per_item) {
  const int64_t items = 8192 / (elements_per_item > 0 ? elements_per_item : 1);
  return items > 0 ? items : 1;
}

// Calls body(i) for i in [0, n): the lanes of a block. Iterations must not depend on each other.
template <class Body>
KERNEL_FN void for_each_lane(int64_t n, Body&& body) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) body(i);
}

// Returns true for the one lane that writes a block's results.
KERNEL_FN bool first_lane() { return true; }

// Sets *p = x; other blocks may store the same value at the same time.
KERNEL_FN void store_flag(float* p, float x) {
  __atomic_store_n(reinterpret_cast<uint32_t*>(p), __builtin_bit_cast(uint32_t, x),
                   __ATOMIC_RELAXED);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
#endif
