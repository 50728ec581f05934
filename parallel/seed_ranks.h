// Random numbers of ranks: equal where ranks work on one batch, different where their data differ.
#pragma once

#include "parallel/mesh.h"

#include <cstdint>

namespace booster {

// Restarts this rank's default generator (core/tensor/random/random.h). Ranks at different places
// along the axis data then drop different elements; ranks at one place drop the same ones. Call it
// after the model has its weights and before the first pass. manual_seed with one seed on all ranks
// would drop the same elements in all their batches.
void seed_ranks(uint64_t seed, const Mesh& mesh);

}  // namespace booster
