// The random order in which threads, blocks and streams run. CUDA_ON_HOST_SEED names another one,
// or is "drawn" for a new one, which is printed.
#pragma once

#include <cstdint>

namespace cuda_on_host {

// A number of [0, n).
uint64_t chance(uint64_t n);
uint64_t seed_of_chance();

}  // namespace cuda_on_host
