// What a training told and left, and how far that is from what another did.
#pragma once

#include "booster/booster.h"

#include <string>
#include <vector>

namespace booster::testing {

// What a training told and left.
struct Trained {
  std::vector<double> told;  // of each step: skipped, loss scale, norm (0: not asked), loss
  std::vector<bool> is_exact;
  StateDict start, state;  // weights, and what the optimizer keeps
  StateDict scales;        // the strategy's own
};

// The tensor of that name, or null.
const Tensor* find(const StateDict& state, const std::string& name);
// Without what other ranks have.
StateDict held_here(StateDict state);

// "" or what `got` has other bits of, or has not.
std::string different_bits(const StateDict& got, const StateDict& want);
// "" or what of `wanted`, the state of `want` or a part of it, is not as it should be; `worst` is
// the largest distance. Means of gradients may be `deeper` times further off.
std::string compare(const StateDict& got, const Trained& want, const StateDict& wanted,
                    double tolerance, double deeper, double& worst);
std::string compare_told(const Trained& got, const Trained& want, double tolerance, double& worst);
// What all ranks must have the same bits of.
std::string compare_ranks(const Group& world, const Trained& got, bool with_scales);

}  // namespace booster::testing
