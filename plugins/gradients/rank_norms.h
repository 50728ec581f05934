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

// How ranks hold an optimizer's parameters, so that a norm counts each number once.
struct HeldParameters {
  std::shared_ptr<const Parameters> all;        // may grow later
  std::function<bool(const Tensor&)> is_apart;  // a part of a layer of `layers`; else whole
  // Whether it is for this one to count, of several stages that have it. Absent: always.
  std::function<bool(const Tensor&)> counts_here = {};
  Group owners;  // each has a part of every parameter; alone: all of it
  Group layers;  // they have parts of the same layers, and the same numbers in all else
  Group stages;  // they have different layers
};
NormSharing share_over_mesh(HeldParameters held);

}  // namespace booster
