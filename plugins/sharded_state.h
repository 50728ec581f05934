// Common part of the ZeRO stages: data parallelism that keeps optimizer state only once.
//
// Each rank updates its part of every parameter (plugins/parameters/rank_parts.h) and keeps only
// that part's moments, masters and compensations. Gradients are summed by reduce-scatter in buckets
// while backward runs. Then `grad()` of a parameter is this rank's part of the mean, flat. Norms,
// clips and checkpoints equal those of a single process. The derived plugin handles parameters
// between steps.
#pragma once

#include "parallel/operations/operation_tag.h"
#include "plugins/data_parallel.h"
#include "plugins/gradients/sharded_gradients.h"

#include <memory>
#include <string>
#include <vector>

namespace booster {

class ShardedStatePlugin : public DataParallelPlugin {
 public:
  ~ShardedStatePlugin() override;

  void shard(const Model& model, const Optimizers& optimizers) override;
  void prepare(const Model& model, const Optimizers& optimizers) override;
  PassScope begin(const PassStart& start) override;
  void sync_grads(const Optimizer& optimizer) override;
  // Gathers the parameters that every rank keeps whole.
  void sync_params(const Optimizers& stepped) override;
  void hold_whole(bool whole) override { holds_ += whole ? 1 : -1; }
  void join(StateDict& state) const override;
  void split(StateDict& state) const override;

 protected:
  struct Options {
    ShardedGradientOptions gradients;
    int shard_size = 0;         // ranks that share one copy; 0: all
    bool gathers_late = false;  // each parameter arrives at its first use
    bool cpu_offload = false;   // optimizers keep state and step on the host
  };
  ShardedStatePlugin(Mesh mesh, const Options& options);
  ShardedStatePlugin(const ShardedStatePlugin& other);

  // Returns true if a caller wants whole parameters outside of passes.
  bool holds_whole() const { return holds_ > 0; }
  // Returns the ranks that share one copy of all parts.
  const Group& shards() const { return shards_; }
  // Returns groups of these parameters whose gradients may share messages, roughly in the order in
  // which backward completes each group.
  virtual std::vector<Parameters> message_groups(const Parameters& parameters) const {
    return {parameters};
  }

 private:
  struct Watched {
    Tensor parameter;
    int hook;
  };
  // Parameters of one message that is being gathered from all ranks.
  struct Gathering {
    PackedParts packed;
    Tensor all;
    Work work;
    Group group;  // keeps the group alive while a waiter needs it
  };

  // Sends this rank's parts of the optimizer's parameters to all ranks, and receives theirs.
  void gather_params(const Optimizer& optimizer);
  void offload(const Optimizers& optimizers);
  // Owns this rank's part of each of the optimizer's parameters, and of parameters that join it.
  void own(Optimizer optimizer);
  void watch_new();
  void watch(const Parameters& parameters);
  // Returns the parameters whose parts a step may have changed, grouped by message.
  std::vector<std::vector<Tensor>> messages(const Optimizer& optimizer) const;
  // Sends this rank's parts of parameters of one dtype.
  std::shared_ptr<const Gathering> gather(const std::vector<Tensor>& parameters,
                                          OperationTag tag) const;
  static void receive(const std::shared_ptr<const Gathering>& gathering,
                      const std::vector<Tensor>& parameters, bool late);
  // Returns the parameter to which this optimizer state belongs; undefined for a count or another
  // tensor.
  Tensor kept_for(const NamedTensor& held) const;

  Options options_;
  Group shards_;
  Group gathers_;  // the same ranks; forward passes do not wait for late gathers
  ShardedGradients gradients_;
  std::vector<Watched> watched_;
  std::vector<Work> on_their_way_;
  int holds_ = 0;
};

// Returns the elements of a message, from an option in units of 2^20. Throws an error that begins
// with `option` unless it is > 0.
int64_t message_elements(const char* option, double size_in_m);

}  // namespace booster
