// hybrid_parallel: data, pipeline, sequence and tensor parallelism on one mesh, with ZeRO along the
// data axis.
//
// Ranks of a tensor group work on parts of the same layers and see the same batch. Ranks of a
// sequence group work on other tokens of it. Ranks of a pipeline have different layers. Ranks of a
// data group hold the same part and see different batches. Another plugin works along the data
// axis: torch_ddp (zero_stage 0), low_level_zero (1, 2) or fsdp (3).
#pragma once

#include "plugins/built_in.h"
#include "plugins/batch_agreement.h"
#include "plugins/data_parallel.h"
#include "plugins/pipeline/pipeline_stages.h"
#include "plugins/sequence/sequence_parallel.h"
#include "plugins/tensor/gradient_agreement.h"
#include "plugins/tensor/tensor_parallel.h"

#include <memory>

namespace booster {

class HybridParallel : public Plugin {
 public:
  explicit HybridParallel(HybridParallelOptions options = {});
  // Runs on the ranks of `group` instead of all ranks of the world.
  HybridParallel(HybridParallelOptions options, const Group& group);
  HybridParallel(const HybridParallel& other);

  const char* name() const override { return "hybrid_parallel"; }
  Mesh mesh() const override { return mesh_; }
  void shard(const Model& model, const Optimizers& optimizers) override;
  void prepare(const Model& model, const Optimizers& optimizers) override;
  DataLoader prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                DataLoaderOptions options) const override;
  Tensors forward(const Tensors& input, const MicroStep& step) override;
  Tensor run(const Tensors& input, const Tensors& target, const MicroStep& step) override;
  PassScope begin(const PassStart& start) override;
  void agree(Tensor& numbers, Among among) override;
  void sync_grads(const Optimizer& optimizer) override;
  void sync_params(const Optimizers& stepped) override;
  void hold_whole(bool whole) override;
  void join(StateDict& state) const override;
  void split(StateDict& state) const override;

 private:
  HybridParallel(HybridParallelOptions options, Mesh mesh);
  struct Stepped {
    Optimizer optimizer;
    std::shared_ptr<Parameters> parameters;  // later groups join them
    GradientAgreement agreement;
  };
  // Partitions layers and sequences.
  void cut(const Model& model);
  void share_norms(const Optimizers& optimizers);
  // Makes new groups throw for parameters that no stage had when the model was boosted.
  void refuse_strangers(Optimizer optimizer) const;
  // Does as DataParallelPlugin::model_has_run, and takes over that plugin's notes.
  void model_has_run(const MicroStep& step);
  // Checks gradients of parameters that each rank along tensor holds whole.
  void check_gradients(Stepped& stepped) const;
  // Gives ranks along sequence and tensor the same generator state, so that they drop the same
  // elements of the same activations.
  void align_random_numbers() const;

  HybridParallelOptions options_;
  Mesh mesh_;
  SequenceParallel sequence_;
  std::shared_ptr<TensorParallel> tensor_;
  std::shared_ptr<PipelineStages> stages_;  // null: one stage
  std::unique_ptr<DataParallelPlugin> data_;
  BatchAgreement batches_;
  Model model_;
  std::vector<Stepped> stepped_;
};

}  // namespace booster
