// Norms over gradients that ranks hold apart. Nothing is read from the device.
#pragma once

#include "core/optim/optimizer.h"
#include "parallel/groups/group.h"

#include <vector>

namespace booster {

// The p-norm of the gradients of all ranks of the group as one: f64, no dimensions. Each number of
// `gradients` must be on this rank alone. All ranks must call it.
Tensor norm_over_ranks(const std::vector<Tensor>& gradients, double power, Device device,
                       const Group& group);

// For an optimizer that owns parts: norms of its parameters' gradients, and LAMB's sums, over the
// ranks of the group. `parameters` may grow later.
NormSharing share_over_ranks(std::shared_ptr<const std::vector<Tensor>> parameters, Group group);

}  // namespace booster
