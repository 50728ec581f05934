// A pair of layers that ranks can split as in Megatron: the first by output features, the second by
// input features. In between, each rank works on its own hidden features.
#pragma once

#include "booster/booster.h"

namespace booster::toys {

// Returns this rank's part of a tensor cut along a dimension; the inverse, which is collective.
Tensor part_of(const Tensor& whole, int dim, const Group& group);
Tensor whole_of(const Tensor& part, int dim, const Group& group);

// gelu(x u^T + a) d^T + b; whole until it is cut.
class Pair : public Module {
 public:
  Pair(int64_t features, int64_t hidden)
      : Module("Pair"),
        up(add<Linear>("up", features, hidden)),
        down(add<Linear>("down", hidden, features)) {}
  Linear &up, &down;
  // From now on the parameters hold this rank's hidden features; b stays whole. Roles and names
  // stay, so strategies see the same layers as before.
  void cut(const Group& group);

 private:
  Tensor forward(const Tensor& x) override;
  std::optional<Group> group_;
};

}  // namespace booster::toys
