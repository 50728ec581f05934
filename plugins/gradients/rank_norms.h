// Norms over gradients that are sharded over ranks. Nothing is read from the device.
#pragma once

#include "core/optim/optimizer.h"
#include "parallel/groups/group.h"

#include <functional>
#include <memory>
#include <vector>

namespace booster {

// Returns the p-norm of all ranks' gradients as one vector: f64, no dimensions. Each element of
// `gradients` must be on this rank only. Collective over the group.
Tensor norm_over_ranks(const std::vector<Tensor>& gradients, double power, Device device,
                       const Group& group);

// Shares norms of gradients, and LAMB's sums, over the ranks of the group, for an optimizer that
// owns parts. `parameters` may grow later.
NormSharing share_over_ranks(std::shared_ptr<const std::vector<Tensor>> parameters, Group group);

// How ranks hold an optimizer's parameters, so that a norm counts each element once.
struct HeldParameters {
  std::shared_ptr<const Parameters> all;        // may grow later
  std::function<bool(const Tensor&)> is_apart;  // true: a part of a layer of `layers`; else whole
  // True if this stage counts a parameter that several stages have. If absent, it counts all.
  std::function<bool(const Tensor&)> counts_here = {};
  Group owners;  // each has a part of every parameter; a single rank has all
  Group layers;  // ranks with parts of the same layers, and equal other values
  Group stages;  // ranks with different layers
};
NormSharing share_over_mesh(HeldParameters held);

}  // namespace booster
