// A plugin with only PipelineStages: the axis "pipeline" takes all ranks.
#pragma once

#include "booster/booster.h"
#include "plugins/pipeline/pipeline_stages.h"

namespace booster::testing {

class StagesPlugin : public Plugin {
 public:
  StagesPlugin(const Group& world, const PipelineOptions& options)
      : mesh_(world, {{"pipeline", -1}}), stages_(mesh_, options) {}

  const char* name() const override { return "stages"; }
  Mesh mesh() const override { return mesh_; }
  const PipelineStages& stages() const { return stages_; }
  void shard(const Model& model, const Optimizers& optimizers) override;
  Tensor run(const Tensors& input, const Tensors& target, const MicroStep& step) override {
    return stages_.run(input, target, step);
  }
  Tensors forward(const Tensors& input, const MicroStep& step) override {
    return stages_.forward(input, step);
  }
  void agree(Tensor& numbers, Among among) override;
  void join(StateDict& state) const override { stages_.join(state); }
  void split(StateDict& state) const override { stages_.split(state); }

 private:
  Mesh mesh_;
  PipelineStages stages_;
};

// Runs forward and backward of one batch; returns the loss.
Tensor train_on(const Tensor& input, const Tensor& target, const Booster& booster,
                const BoostedModel& model, const Criterion& loss, BoostedOptimizer& optimizer);
// Returns the mean squared difference.
Criterion mean_of_squares();

}  // namespace booster::testing
