// Measures peak rates of this machine now: the reference for the profiler's table and `booster
// doctor`. Call from one thread at a time; the kernels use all their threads.
#pragma once

#include "kernels/arguments/view.h"

namespace booster {

// Returns the best rate of a 1024 x 1024 x 1024 matrix product in this dtype, in 10^9 FLOP per
// second, measured for `seconds`.
double measure_matmul_gflops(DType dtype, double seconds);
// Measures the same on a GPU. Uses the first size from 128 on, doubled each time up to 4096, that
// takes a millisecond, since small products do not fill a GPU.
struct MatmulRate {
  double gflops = 0;
  int64_t size = 0;
};
MatmulRate measure_matmul_rate(Device gpu, DType dtype, double seconds);
// Returns the rate of a copy far larger than the caches, in 10^9 bytes read and written per second.
double measure_copy_gbytes_per_s(double seconds);

}  // namespace booster
