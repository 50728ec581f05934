// How profiles recognise and name GPUs.
#pragma once

#include "kernels/arguments/view.h"

#include <fmt/format.h>

#include <string>

namespace booster {

inline bool is_gpu(Device device) { return device.type == DeviceType::cuda; }
// Returns "cuda:0"
inline std::string gpu_name(Device gpu) { return fmt::format("cuda:{}", int{gpu.index}); }

}  // namespace booster
