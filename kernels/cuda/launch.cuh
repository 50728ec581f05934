// kernels/launch/launch.h on a GPU: blocks of threads on the device's stream. All calls return
// immediately; the work is done in call order.
#pragma once

#include "kernels/arguments/view.h"
#include "kernels/cuda/runtime/call.cuh"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/loaded_kernels.h"

#define KERNEL_FN __host__ __device__ __forceinline__
#define ON_DEVICE __device__

// SHARED(float, tile, 256); declares float tile[256] in the memory of the block.
#ifndef SHARED
#define SHARED(type, name, count) __shared__ type name[count]
#endif

namespace booster::kernels::BOOSTER_VARIANT {

inline constexpr int threads_per_block = 256;
inline constexpr int warp_size = 32;

template <int at_once, int threads, class Body>
__global__ void __launch_bounds__(threads, at_once) run_blocks(const __grid_constant__ Body body) {
  body(int64_t(blockIdx.x));
}

template <int at_once, int threads, class Body>
inline const bool is_noted = ::booster::kernels::cuda::note_kernel(
    reinterpret_cast<const void*>(&run_blocks<at_once, threads, Body>));

// Calls body(block) for block in [0, blocks), all threads of a block together. The compiler limits
// the registers of a thread, so that at least `at_once` blocks fit on a multiprocessor. A body for
// another number of threads must not use functions that assume threads_per_block.
template <int at_once = 1, int threads = threads_per_block, class Body>
void for_each_block(int64_t blocks, Body body) {
  if (blocks <= 0 || !is_noted<at_once, threads, Body>) return;
  void* arguments[] = {&body};
  CUDA_CALL(cudaLaunchKernel(run_blocks<at_once, threads, Body>, static_cast<unsigned>(blocks),
                             threads, arguments, 0, ::booster::kernels::cuda::current_stream()));
  ::booster::kernels::cuda::wait_if_debugging();
}

// Calls body(i) for i in [0, n) with the threads of a block.
template <class Body>
__device__ void for_each_lane(int64_t n, Body&& body) {
  for (int64_t i = threadIdx.x; i < n; i += threads_per_block) body(i);
}

// Returns true for the one thread that writes a block's results.
__device__ inline bool first_lane() { return threadIdx.x == 0; }

// Sets *p = x; other blocks may store the same value at the same time.
__device__ inline void store_flag(float* p, float x) { *static_cast<volatile float*>(p) = x; }

// Calls body(i) for i in [0, n), one thread each.
template <class Body>
void for_each_item(int64_t n, Body body) {
  for_each_block((n + threads_per_block - 1) / threads_per_block, [=] ON_DEVICE(int64_t block) {
    const int64_t i = block * threads_per_block + threadIdx.x;
    if (i < n) body(i);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
