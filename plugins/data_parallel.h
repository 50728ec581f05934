// What every kind of data parallelism shares: each rank sees its own share of the data and works on
// the whole model. All ranks start from rank 0's numbers. A parameter that an optimizer steps
// without a gradient is an error that names it. How gradients are exchanged is the derived
// plugin's.
//
// Rank 0's buffers go to all after each step, and after each training pass without gradients. So
// all ranks evaluate with the buffers that checkpoints hold. An evaluation sends nothing: one rank
// may evaluate alone.
//
// Where a mesh has other axes than data, ranks along those see the same data, and what they have in
// common is another plugin's (plugins/hybrid_parallel.h). Ranks along the axis sequence work on
// other tokens of it with the same parameters, whose gradients are averaged with those along data.
#pragma once

#include "plugins/interface/plugin.h"

#include <memory>
#include <unordered_set>
#include <vector>

namespace booster {

class DataParallelPlugin : public Plugin {
 public:
  Mesh mesh() const override { return mesh_; }
  void shard(const Model& model, const Optimizers& optimizers) override;
  void prepare(const Model& model, const Optimizers& optimizers) override;
  DataLoader prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                DataLoaderOptions options) const override;
  Tensor forward(const Tensor& input, const MicroStep& step) override;
  Tensor run(const Tensor& input, const Tensor& target, const MicroStep& step) override;
  void agree(Tensor& numbers, Among among) override;
  // After the update: a plugin that overrides it calls it as well.
  void sync_params(const Optimizer& optimizer) override;
  // Does nothing where the option broadcast_buffers is off.
  void share_buffers() override;
  // A call of the model has ended. Shares its buffers where no step will; notes once if ranks
  // evaluate with different ones.
  void model_has_run(const MicroStep& step);
  // Sends rank 0's values of parameters that joined an optimizer after boost to all ranks, once.
  // Called before each training pass.
  void share_joined();

 protected:
  // Data parallel along the mesh's axes data and sequence.
  DataParallelPlugin(Mesh mesh, bool broadcast_buffers);
  // A description of it, for another model: error if it serves one.
  DataParallelPlugin(const DataParallelPlugin& other);

  // Along the axes data and sequence.
  const Group& ranks() const { return group_; }
  // Which of the trainings that these ranks have begun this one is, from 0: it tells their messages
  // apart. Counted once, before the first message.
  void number_training();
  uint32_t training() const { return training_; }
  const Optimizers& optimizers() const { return optimizers_; }
  // Parameters that require a gradient and were not returned by an earlier call: they may be
  // thawed, and groups added to an optimizer, after the model was boosted.
  Parameters new_parameters();
  // Of each number the sum over the stages of a pipeline; all ranks of one call it. A stage may
  // have nothing to train.
  std::vector<int64_t> over_stages(std::vector<int64_t> numbers) const;
  // Error if some of the optimizer's parameters have no gradient, unless this rank is the only one
  // that could have any, or no pass began since they joined it. `advice`: another thing to do then,
  // where this is not a part of hybrid_parallel.
  void check_none_missing(const Optimizer& optimizer, const char* advice) const;

 private:
  Mesh mesh_;
  Group group_;        // along the axes data and sequence
  Group same_layers_;  // all that have the same layers or parts of them
  bool broadcast_buffers_;
  bool has_moved_buffers_ = false;  // since they were shared
  bool has_noted_buffers_ = false;
  uint32_t training_ = 0;
  bool is_numbered_ = false;
  Model model_;
  Optimizers optimizers_;
  std::unordered_set<const TensorBody*> known_;
  std::unordered_set<const TensorBody*> shared_;  // with the numbers of rank 0
  // Have joined an optimizer since the last pass.
  std::shared_ptr<Parameters> joined_ = std::make_shared<Parameters>();
};

// Rank 0's numbers become those of all ranks of the group: parameters, buffers, and what the
// optimizers hold besides.
void share_numbers(const Model& model, const Optimizers& optimizers, const Group& group);

}  // namespace booster
