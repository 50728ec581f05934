// Norms over gradients that ranks hold apart. Nothing is read from the device.
#pragma once

#include "core/optim/optimizer.h"
#include "parallel/groups/group.h"

#include <functional>
#include <memory>
#include <vector>

namespace booster {

// The p-norm of the gradients of all ranks of the group as one: f64, no dimensions. Each number of
// `gradients` must be on this rank alone. All ranks must call it.
Tensor norm_over_ranks(const std::vector<Tensor>& gradients, double power, Device device,
                       const Group& group);

// For an optimizer that owns parts: norms of its parameters' gradients, and LAMB's sums, over the
// ranks of the group. `parameters` may grow later.
NormSharing share_over_ranks(std::shared_ptr<const std::vector<Tensor>> parameters, Group group);

// For an optimizer some of whose parameters are parts of layers that the ranks of `layers` share
// (`is_apart`); the others are whole and the same on all of those. Where each rank owns a part of
// every parameter besides, `owners` are the ranks that have the other parts; else this rank alone.
// `parameters` may grow later.
NormSharing share_over_layers(std::shared_ptr<const Parameters> parameters,
                              std::function<bool(const Tensor&)> is_apart, Group owners,
                              Group layers);

}  // namespace booster
