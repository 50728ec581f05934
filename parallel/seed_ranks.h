// Random numbers of ranks: alike where ranks work on one batch, apart where their data differ.
#pragma once

#include "parallel/mesh.h"

#include <cstdint>

namespace booster {

// Restarts this rank's default generator (core/tensor/random/random.h). Ranks at different places
// along the axis data then drop different elements, ranks at one place the same ones. Call it after
// the model has its weights and before the first pass. Ranks that call manual_seed with one seed
// draw alike, so dropout would drop the same elements in the batches of all of them.
void seed_ranks(uint64_t seed, const Mesh& mesh);

}  // namespace booster
