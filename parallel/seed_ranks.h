// Random numbers of ranks: alike where ranks work on one batch, apart where their data differ.
#pragma once

#include "parallel/mesh.h"

#include <cstdint>

namespace booster {

// Restarts this rank's default generator (core/tensor/random.h): ranks at different places along
// the axis data drop other elements, those at the same place the same ones. Call it once the model
// has its weights and before the first pass: ranks that call manual_seed with one seed draw alike,
// so that dropout would drop the same elements in the batches of all of them.
void seed_ranks(uint64_t seed, const Mesh& mesh);

}  // namespace booster
