// Ranks with one GPU each, real or emulated (tests/cuda_on_host).
#pragma once

#include "parallel/mesh.h"
#include "tests/on_gpu.h"
#include "tests/parallel/ranks.h"

#include <map>
#include <string>

inline int most_gpus() { return gpus_are_played() ? 4 : booster::kernels::cuda_device_count(); }

// Decorators of cases that need several, or emulated, GPUs.
inline auto on_several_gpus() { return doctest::skip(most_gpus() < 2); }
inline auto on_played_gpus() { return doctest::skip(!gpus_are_played()); }

// Runs the test case on ranks. Returns the output of the ranks if it failed; "" if it passed, or if
// there are fewer GPUs.
inline std::string failures_on_gpus(const std::string& test_case, int size,
                                    std::map<std::string, std::string> environment = {}) {
  if (size > most_gpus()) return "";
  environment.insert({{"CUDA_ON_HOST_DEVICES", std::to_string(size)}, {"OMP_NUM_THREADS", "1"}});
  return failures(Ranks(test_case, size, environment).wait(120));
}

inline booster::Device gpu_of(const booster::World& world) {
  return booster::Device::cuda(world.local_rank);
}
