// A minimal pipeline: how a plugin outside the library cuts a model into stages and schedules a
// batch.
//
// GPipe: all micro-batches run forward, then all run backward. Each rank holds only its own layers'
// values. For one thread.
#pragma once

#include "booster/booster.h"

namespace booster::toys {

class ToyPipeline : public Plugin {
 public:
  // One stage per rank; batches are cut into `microbatches` micro-batches of equal size.
  ToyPipeline(const Group& world, int microbatches)
      : mesh_(world, {{"pipeline", -1}}), microbatches_(microbatches) {}

  const char* name() const override { return "toy_pipeline"; }
  Mesh mesh() const override { return mesh_; }
  // Throws unless the model is a Chain.
  void shard(const Model& model, const Optimizers& optimizers) override;
  Tensor run(const Tensors& input, const Tensors& target, const MicroStep& step) override;
  void agree(Tensor& numbers, Among among) override;
  void join(StateDict& state) const override;
  void split(StateDict& state) const override;

 private:
  int stages() const { return group().size(); }
  int stage() const { return group().rank(); }
  bool is_last() const { return stage() == stages() - 1; }
  // Returns the i-th micro-batch.
  Tensor rows(const Tensor& batch, int i) const;
  // Returns the stage that has a tensor of this name.
  int stage_of(const std::string& name) const;

  Mesh mesh_;
  int microbatches_;
  std::vector<int> first_;           // first module of each stage, then the total
  std::vector<std::string> others_;  // the model's tensors of other stages
};

}  // namespace booster::toys
