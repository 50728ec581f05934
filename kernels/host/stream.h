// A queue of a device: what is put into it runs in order, without the program waiting.
#pragma once

#include "kernels/arguments/view.h"

namespace booster::kernels {

struct Stream {
  Device device = {};
  void* handle = nullptr;  // a cudaStream_t; null for the device's default stream and for the host
};

}  // namespace booster::kernels
