// For test cases that need a GPU: TEST_CASE("GPU: ..." * on_gpu()). Those that fill its memory are
// called "GPU alone: ...": scripts/gpu_check.sh runs nothing beside them.
#pragma once

#include "kernels/arguments/view.h"
#include "kernels/device/memory.h"

#include <doctest/doctest.h>

inline constexpr booster::Device gpu = {booster::DeviceType::cuda, 0};

// Skips a test case where there are fewer GPUs.
inline auto on_gpu(int count = 1) {
  return doctest::skip(booster::kernels::cuda_device_count() < count);
}
// Whether they are those of tests/cuda_on_host, and none of metal.
inline bool gpus_are_played() {
  const auto gpus = booster::kernels::cuda_devices();
  return !gpus.empty() && gpus[0].name == "CUDA on the host";
}
