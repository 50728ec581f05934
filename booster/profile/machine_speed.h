// What this machine does at best, measured now: the yardsticks of the profiler's table and of
// `booster doctor`. One thread at a time; the kernels use all of theirs.
#pragma once

#include "kernels/view.h"

namespace booster {

// 10^9 FLOP a second of a 1024 x 1024 x 1024 matrix product in this dtype, the best of `seconds`.
double measure_matmul_gflops(DType dtype, double seconds);
// 10^9 bytes a second, read and written, of a copy far larger than the caches.
double measure_copy_gbytes_per_s(double seconds);

}  // namespace booster
