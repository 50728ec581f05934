// Peak rates of this machine, measured now: the reference for the profiler's table and `booster
// doctor`. Call from one thread at a time; the kernels use all their threads.
#pragma once

#include "kernels/arguments/view.h"

namespace booster {

// 10^9 FLOP a second of a 1024 x 1024 x 1024 matrix product in this dtype, the best of `seconds`.
double measure_matmul_gflops(DType dtype, double seconds);
// The same on a GPU, of the first size from 128 on, doubled each time, that takes a millisecond: up
// to 4096, since small ones do not fill it.
struct MatmulRate {
  double gflops = 0;
  int64_t size = 0;
};
MatmulRate measure_matmul_rate(Device gpu, DType dtype, double seconds);
// 10^9 bytes a second, read and written, of a copy far larger than the caches.
double measure_copy_gbytes_per_s(double seconds);

}  // namespace booster
