// Checks of numbers that only the device knows, such as whether all targets are classes. Nobody
// waits for a GPU to find out: its thread is told when it reads numbers of that GPU the next time.
#pragma once

#include "core/tensor/tensor.h"

#include <functional>

namespace booster {

// `found` (i64, one element) is what a kernel found, -1 if all is well. Else `raise` is called with
// it, and raises the error: at once on the CPU; on a GPU when this thread next reads numbers of it
// (item, to_vector, to(CPU)), before they are handed out. What was computed from the bad numbers in
// between may be anything. Within captured work each replay puts the check off anew, for all
// replays since the last one.
void check_later(const Tensor& found, std::function<void(int64_t)> raise);
// The same of a tensor that is asked about again and again: no more often than it is read.
void check_again_later(const Tensor& found, std::function<void(int64_t)> raise);
// What was put off for this device. Of Tensor::to.
void run_later_checks(Device device);

}  // namespace booster
