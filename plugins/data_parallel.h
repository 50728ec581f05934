// Common part of all data parallelism: each rank sees its own share of the data and works on the
// whole model. All ranks start from rank 0's values. Stepping a parameter without a gradient throws
// an error that names it. Derived plugins exchange the gradients.
//
// All ranks receive rank 0's buffers after each step, and after each training pass without
// gradients. All ranks thus evaluate with the buffers that checkpoints hold. An evaluation sends
// nothing, so one rank may evaluate alone.
//
// If a mesh has other axes besides data, ranks along these axes see the same data, and another
// plugin handles them (plugins/hybrid_parallel.h). Ranks along the axis sequence work on different
// tokens of the same data with the same parameters. Gradients are averaged over the axes data and
// sequence.
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
  Tensors forward(const Tensors& input, const MicroStep& step) override;
  Tensor run(const Tensors& input, const Tensors& target, const MicroStep& step) override;
  void agree(Tensor& numbers, Among among) override;
  // Shares buffers. A plugin that overrides it must call it as well.
  void sync_params(const Optimizers& stepped) override;
  // Shares the model's buffers after a call of it, if no step will. Notes once if ranks evaluate
  // with different buffers.
  void model_has_run(const MicroStep& step);
  // Sends rank 0's values of parameters that joined an optimizer after boost to all ranks, once.
  // Called before each training pass.
  void share_joined();

 protected:
  // Data parallel along the mesh's axes data and sequence.
  DataParallelPlugin(Mesh mesh, bool broadcast_buffers);
  // Copies the configuration for another model; throws if `other` already serves one.
  DataParallelPlugin(const DataParallelPlugin& other);

  // Returns the ranks along the axes data and sequence.
  const Group& ranks() const { return group_; }
  // Does nothing if the option broadcast_buffers is off.
  void share_buffers();
  // Sets the sequence number of this training on these ranks, from 0; it tags the messages. Does so
  // once, before the first message.
  void number_training();
  uint32_t training() const { return training_; }
  const Optimizers& optimizers() const { return optimizers_; }
  const Model& model() const { return model_; }
  // Returns parameters that require a gradient and that no earlier call returned. Parameters may be
  // unfrozen, and groups added to an optimizer, after the model was boosted.
  Parameters new_parameters();
  // Sums each number over the pipeline's stages; collective over one pipeline. A stage may have
  // nothing to train.
  std::vector<int64_t> over_stages(std::vector<int64_t> numbers) const;
  // Throws if some, but not all, of the optimizer's parameters have no gradient. If all lack one,
  // no pass has run since the gradients were dropped. Ignores parameters that joined after the last
  // pass began. Never throws if the group has one rank. `advice` is a further remedy for the error
  // text, used outside of hybrid_parallel.
  void check_none_missing(const Optimizer& optimizer, const char* advice) const;

 private:
  Mesh mesh_;
  Group group_;        // along the axes data and sequence
  Group same_layers_;  // all ranks with the same layers or parts of them
  bool broadcast_buffers_;
  bool has_moved_buffers_ = false;  // since they were shared
  bool has_noted_buffers_ = false;
  uint32_t training_ = 0;
  bool is_numbered_ = false;
  Model model_;
  Optimizers optimizers_;
  std::unordered_set<const TensorBody*> known_;
  std::unordered_set<const TensorBody*> shared_;  // hold rank 0's values
  // Parameters that joined an optimizer since the last pass.
  std::shared_ptr<Parameters> joined_ = std::make_shared<Parameters>();
};

// Sends rank 0's values to all ranks of the group: parameters, buffers, and the optimizers' other
// parameters.
void share_numbers(const Model& model, const Optimizers& optimizers, const Group& group);

}  // namespace booster
