// The residual stream of a transformer whose blocks normalise their input (pre-norm).
#pragma once

#include "core/nn/layers.h"

namespace booster {

// The stream between blocks: x + branch, not yet added, so that the addition can be fused with the
// next normalisation. `branch` is undefined at the start.
struct ResidualStream {
  Tensor x, branch;
  Tensor sum() const { return branch.defined() ? x + branch : x; }
};

// Returns the sum of a stream and its normalisation, as input of a linear layer. Takes one pass,
// unless hooks need the normalisation's own input and output.
ResidualNorm normalized(LayerNorm& norm, const ResidualStream& stream);

}  // namespace booster
