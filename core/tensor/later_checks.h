// Checks of values that only the device knows, such as whether all targets are classes. They do not
// wait for a GPU: the thread's next read from that GPU throws.
#pragma once

#include "core/tensor/tensor.h"

#include <functional>

namespace booster {

// Calls `raise` with `found` (i64, one element; a kernel wrote it) unless it is -1; `raise` throws.
// On the CPU that happens immediately. On a GPU it happens when this thread next reads from it
// (item, to_vector, to(CPU)), before that read returns values. Results computed from the bad values
// in between are arbitrary. In captured work each replay defers the check anew, for all replays
// since the last check.
void check_later(const Tensor& found, std::function<void(int64_t)> raise);
// Does the same for a tensor that is checked repeatedly: at most one check of it is deferred at a
// time.
void check_again_later(const Tensor& found, std::function<void(int64_t)> raise);
// Runs the deferred checks of this device; Tensor::to calls it.
void run_later_checks(Device device);

}  // namespace booster
