#include "parallel/mesh.h"

#include "core/tensor/random/random.h"

namespace booster {

void seed_ranks(uint64_t seed, const Mesh& mesh) {
  constexpr uint64_t prime = 1000003;
  manual_seed(seed + prime * static_cast<uint64_t>(mesh.place("data") + 1));
}

}  // namespace booster
