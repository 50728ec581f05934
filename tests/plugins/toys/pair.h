// A pair of layers that ranks can share, as Megatron cuts them: the first by output features, the
// second by input features, so that in between each rank works on its hidden features alone.
#pragma once

#include "booster/booster.h"

namespace booster::toys {

// This rank's part of a tensor that is cut along a dimension, and back; all ranks call the latter.
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
  // stay, so strategies see layers as before.
  void cut(const Group& group);

 private:
  Tensor forward(const Tensor& x) override;
  std::optional<Group> group_;
};

}  // namespace booster::toys
