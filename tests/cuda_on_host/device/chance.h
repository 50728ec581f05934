// The random order in which threads, blocks and streams run. CUDA_ON_HOST_SEED selects another
// order; "drawn" draws a new seed and prints it.
#pragma once

#include <cstdint>

namespace cuda_on_host {

// Returns a number in [0, n).
uint64_t chance(uint64_t n);
uint64_t seed_of_chance();

}  // namespace cuda_on_host
