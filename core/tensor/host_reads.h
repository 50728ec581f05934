// How often this thread read numbers of a tensor into the program (item, to_vector, to(CPU)): each
// may wait for the device. For tests of what must never wait, such as a training step.
#pragma once

#include <cstdint>

namespace booster {

int64_t host_reads();

}  // namespace booster
