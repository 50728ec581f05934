// Minimal tensor parallelism: how a plugin outside the library splits layers over ranks. It splits
// the layers of every Pair in the model; tensor groups are data parallel to each other. For one
// thread.
#pragma once

#include "booster/booster.h"

#include <map>

namespace booster::toys {

class ToyTensorParallel : public Plugin {
 public:
  // `tensor` ranks split each pair.
  ToyTensorParallel(const Group& world, int tensor)
      : mesh_(world, {{"data", -1}, {"tensor", tensor}}) {}

  const char* name() const override { return "toy_tensor_parallel"; }
  Mesh mesh() const override { return mesh_; }
  void shard(const Model& model, const Optimizers& optimizers) override;
  PassScope begin(const PassStart& start) override;
  void agree(Tensor& numbers, Among) override;
  void sync_grads(const Optimizer&) override { exchange(); }
  void join(StateDict& state) const override;
  void split(StateDict& state) const override;

 private:
  NormSharing norms_of(const Optimizer& optimizer) const;
  // Averages gradients along the data axis, if some are not averaged yet.
  void exchange();

  Mesh mesh_;
  Optimizers optimizers_;
  std::map<std::string, int> cuts_;  // the dimension that a parameter is cut along, by name
  bool has_local_ = false;
};

}  // namespace booster::toys
