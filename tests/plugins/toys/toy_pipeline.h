// A pipeline in little: how a plugin outside of the library cuts a model into stages and orders the
// work on a batch.
//
// GPipe: all microbatches go forward, then all go back. Each rank has the numbers of its own layers
// alone. For one thread.
#pragma once

#include "booster/booster.h"

namespace booster::toys {

class ToyPipeline : public Plugin {
 public:
  // A stage for each rank; batches are cut into so many microbatches of the same size.
  ToyPipeline(const Group& world, int microbatches)
      : mesh_(world, {{"pipeline", -1}}), microbatches_(microbatches) {}

  const char* name() const override { return "toy_pipeline"; }
  Mesh mesh() const override { return mesh_; }
  // Error unless the model is a Chain.
  void shard(const Model& model, const Optimizers& optimizers) override;
  Tensor run(const Tensor& input, const Tensor& target, const MicroStep& step) override;
  void agree(Tensor& numbers, Among among) override;
  void join(StateDict& state) const override;
  void split(StateDict& state) const override;

 private:
  int stages() const { return group().size(); }
  int stage() const { return group().rank(); }
  bool is_last() const { return stage() == stages() - 1; }
  // The i-th of the microbatches.
  Tensor rows(const Tensor& batch, int i) const;
  // The stage that has a tensor of this name.
  int stage_of(const std::string& name) const;

  Mesh mesh_;
  int microbatches_;
  std::vector<int> first_;           // module of each stage, and the end of all
  std::vector<std::string> others_;  // the model's tensors of other stages
};

}  // namespace booster::toys
