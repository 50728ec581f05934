// low_level_zero: data parallelism that keeps optimizer state once (ZeRO stages 1 and 2, by
// Rajbhandari et al., "ZeRO: memory optimizations toward training trillion parameter models",
// SC'20).
//
// Each rank updates its part of every parameter (plugins/rank_parts.h) and keeps moments, masters
// and compensations of that part alone; after a step all gather the parameters. Gradients are
// summed by reduce-scatter in buckets while backward runs, and from then on `grad()` of a parameter
// is this rank's part of the mean, flat. Norms, clips and checkpoints are those of one process.
// With P parameters on N ranks, AdamW in f32 keeps 4 P bytes of weights and 8 P / N of state.
// Stage 1 holds whole gradients until a pass ends, 4 P bytes; stage 2 gives them up as their
// buckets leave, so that 4 P / N and some buckets remain. Inside no_sync both hold whole ones.
#pragma once

#include "plugins/data_parallel.h"
#include "plugins/sharded_gradients.h"

#include <memory>
#include <vector>

namespace booster {

struct LowLevelZeroOptions {
  int64_t stage = 1;                    // 1: optimizer state; 2: and gradients
  double reduce_bucket_size_in_m = 12;  // elements of a message, in units of 2^20
  bool overlap_communication = true;    // buckets leave during backward
  bool overlap_allgather = false;       // parameters arrive by the next forward pass, not in step;
                                        // nobody may read them in between
  bool cpu_offload = false;  // optimizer state in host memory: no change where training is there
};

class LowLevelZeroPlugin : public DataParallelPlugin {
 public:
  explicit LowLevelZeroPlugin(LowLevelZeroOptions options = {});
  // On ranks other than all of the world's.
  LowLevelZeroPlugin(LowLevelZeroOptions options, Group group);
  LowLevelZeroPlugin(const LowLevelZeroPlugin& other);
  ~LowLevelZeroPlugin() override;

  const char* name() const override { return "low_level_zero"; }
  Layout layout() const override;
  void shard(const Model& model, const Optimizers& optimizers) override;
  void prepare(const Model& model, const Optimizers& optimizers) override;
  void begin(Pass pass, bool sync) override;
  void end(Pass pass) override;
  void sync_grads(const Optimizer& optimizer) override;
  void sync_params(const Optimizer& optimizer) override;
  void join(StateDict& state) const override;
  void split(StateDict& state) const override;

 private:
  struct Watched {
    Tensor parameter;
    int hook;
  };
  // Parameters of one message, on their way from all ranks.
  struct Gathering {
    Optimizer optimizer;
    std::vector<Tensor> parameters;
    PackedParts packed;
    Tensor all;
    Work work;
  };

  void consider_offload(const Optimizers& optimizers) const;
  // Says which part of the optimizer's parameters is owned here; `known`: those that were told.
  void own_new(Optimizer optimizer, std::vector<Tensor>& known);
  void watch_new();
  // Sends this rank's parts of parameters of one dtype.
  void gather(const Optimizer& optimizer, std::vector<Tensor> parameters);
  void finish_gathering();
  // The parameter for which an optimizer keeps this; undefined: something else, or one number.
  Tensor kept_for(const NamedTensor& held) const;

  LowLevelZeroOptions options_;
  ShardedGradients gradients_;
  std::vector<Watched> watched_;
  std::vector<std::shared_ptr<std::vector<Tensor>>> by_optimizer_;  // owned in part
  std::vector<Gathering> gathering_;
};

}  // namespace booster
