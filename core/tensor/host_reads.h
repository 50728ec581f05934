// Counts this thread's copies of tensors to the host (item, to_vector, to(CPU)), each of which may
// wait for the device. For tests of code that must never wait, such as a training step.
#pragma once

#include <cstdint>

namespace booster {

int64_t host_reads();

}  // namespace booster
