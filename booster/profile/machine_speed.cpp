#include "booster/profile/machine_speed.h"

#include "core/tensor/tensor.h"
#include "kernels/catalogue.h"
#include "kernels/device/memory.h"

#include <algorithm>
#include <chrono>

namespace booster {

namespace {

// Returns the seconds of the fastest call among those that fit into `budget`; the first call only
// warms up.
template <class Work>
double fastest(double budget, Work&& work) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const auto begin = Clock::now();
  work();
  double best = 1e30;
  do {
    const auto start = Clock::now();
    work();
    best = std::min(best, seconds_since(start));
  } while (seconds_since(begin) < budget);
  return best;
}

double matmul_seconds(Device device, DType dtype, int64_t n, double budget) {
  const Tensor a = full({n, n}, 0.5, {dtype, device}), b = full({n, n}, 0.25, {dtype, device});
  const Tensor out = empty({n, n}, {dtype, device});
  return fastest(budget, [&] {
    kernels::on(device).matmul(out.view(), a.view(), b.view(), 0);
    kernels::device_synchronize(device);
  });
}

double matmul_gflop(int64_t n) {
  const auto size = static_cast<double>(n);
  return 2e-9 * size * size * size;
}

}  // namespace

double measure_matmul_gflops(DType dtype, double seconds) {
  constexpr int64_t n = 1024;
  return matmul_gflop(n) / matmul_seconds({}, dtype, n, seconds);
}

MatmulRate measure_matmul_rate(Device gpu, DType dtype, double seconds) {
  constexpr int64_t largest = 4096;
  int64_t n = 128;
  while (n < largest && matmul_seconds(gpu, dtype, n, 0) < 1e-3) n *= 2;
  return {matmul_gflop(n) / matmul_seconds(gpu, dtype, n, seconds), n};
}

double measure_copy_gbytes_per_s(double seconds) {
  constexpr int64_t n = int64_t{32} << 20;
  const Tensor from = zeros({n}), to = zeros({n});
  const auto copy = [&] { kernels::on({}).copy(to.view(), from.view()); };
  return 2e-9 * static_cast<double>(from.bytes()) / fastest(seconds, copy);
}

}  // namespace booster
