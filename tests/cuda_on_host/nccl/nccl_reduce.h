// The arithmetic of the emulated NCCL's reductions, as around a ring. Each chunk begins at another
// rank and is rounded to its type at every rank. A mean first multiplies every element by 1 /
// ranks.
#pragma once

#include "tests/cuda_on_host/include/nccl.h"

#include <vector>

namespace cuda_on_host {

size_t size_of(ncclDataType_t type);

// Reduces the elements of all ranks, by rank.
std::vector<char> reduce_around_ring(const std::vector<std::vector<char>>& sources,
                                     ncclDataType_t type, ncclRedOp_t operation);

}  // namespace cuda_on_host
