// For test cases that need a GPU: TEST_CASE("GPU: ..." * on_gpu()). Cases that fill its memory are
// called "GPU alone: ..."; scripts/gpu_check.sh runs nothing else at the same time.
#pragma once

#include "kernels/arguments/view.h"
#include "kernels/device/memory.h"

#include <doctest/doctest.h>

inline constexpr booster::Device gpu = {booster::DeviceType::cuda, 0};

// Skips a test case if there are fewer GPUs.
inline auto on_gpu(int count = 1) {
  return doctest::skip(booster::kernels::cuda_device_count() < count);
}
// Returns whether the GPUs belong to the CPU emulator in tests/cuda_on_host.
inline bool gpus_are_played() {
  const auto gpus = booster::kernels::cuda_devices();
  return !gpus.empty() && gpus[0].name == "CUDA on the host";
}
