// A device queue: its entries run in order, and the program does not wait for them.
#pragma once

#include "kernels/arguments/view.h"

namespace booster::kernels {

struct Stream {
  Device device = {};
  void* handle = nullptr;  // a cudaStream_t; null for the device's default stream and for the host
};

}  // namespace booster::kernels
