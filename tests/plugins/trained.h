// The reports and final state of a training, and its distance from another.
#pragma once

#include "booster/booster.h"

#include <string>
#include <vector>

namespace booster::testing {

// The reports and final state of a training.
struct Trained {
  std::vector<double> told;  // per step: skipped, loss scale, norm (0: not read), loss
  std::vector<bool> is_exact;
  StateDict start, state;  // weights and optimizer state
  StateDict scales;        // the strategy's state
};

// Returns rank 0's on all ranks. Collective; its tensors are on the CPU.
Trained of_rank_0(const Group& world, const Trained& trained);

// Returns the tensor of that name, or null.
const Tensor* find(const StateDict& state, const std::string& name);
// Returns the state without other ranks' parts.
StateDict held_here(StateDict state);

// Returns "" or what in `got` is missing or not bitwise equal.
std::string different_bits(const StateDict& got, const StateDict& want);
// Returns "" or what in `wanted`, all or part of the state of `want`, is out of tolerance; `worst`
// is the largest distance. Means of gradients may be off by `deeper` times more.
std::string compare(const StateDict& got, const Trained& want, const StateDict& wanted,
                    double tolerance, double deeper, double& worst);
std::string compare_told(const Trained& got, const Trained& want, double tolerance, double& worst);
// Checks what must be bitwise equal on all ranks.
std::string compare_ranks(const Group& world, const Trained& got, bool with_scales);

}  // namespace booster::testing
