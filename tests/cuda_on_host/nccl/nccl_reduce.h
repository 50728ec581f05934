// The arithmetic of the played NCCL's reductions: as around a ring, each chunk beginning at another
// rank and rounded to its type at every rank; a mean multiplies every number by 1 / ranks first.
#pragma once

#include "tests/cuda_on_host/include/nccl.h"

#include <vector>

namespace cuda_on_host {

size_t size_of(ncclDataType_t type);

// Of the numbers of all ranks, by rank.
std::vector<char> reduce_around_ring(const std::vector<std::vector<char>>& sources,
                                     ncclDataType_t type, ncclRedOp_t operation);

}  // namespace cuda_on_host
