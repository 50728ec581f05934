// fsdp: data parallelism in which each rank keeps a part of everything (ZeRO stage 3: Rajbhandari
// et al., SC'20; PyTorch's FSDP: Zhao et al., VLDB 2023).
//
// Beyond what low_level_zero shares out, ranks keep parts of the parameters: with P of them on N
// ranks, AdamW in f32 keeps 16 P / N bytes, and the whole parameters of a module ("unit") while it
// computes, with those of the next one. A model that was made under LazyInit (core/tensor/
// absence.h) is spread parameter by parameter, so that it may be larger than what one rank holds.
//
// Parameters keep shape and name; using their numbers outside of a pass is an error, unless
// WholeParameters (booster/training/boosted.h) is around it. Writing whole numbers into them by
// copy_, as load_state_dict does, keeps this rank's part. Where parameters are cast by autocast,
// 16-bit copies stay from forward to backward. Inside no_sync gradients are whole.
#pragma once

#include "core/nn/no_options.h"
#include "plugins/parameters/parameter_units.h"
#include "plugins/sharded_state.h"

namespace booster {

struct FsdpOptions {
  std::string sharding = "full";  // "full": over all ranks; "hybrid": over shard_size of them, and
                                  // each such group of neighbours has a copy of everything
  int64_t shard_size = 0;         // 0: the ranks of a machine
  std::vector<std::string> wrap = {};  // patterns of names of modules; none: the model's blocks
  int64_t prefetch = 1;                // units that are gathered ahead
  bool recompute = false;              // units keep their inputs only, and run again in backward
  bool cpu_offload = false;  // a GPU's parts and optimizer state are in host memory, and steps run
                             // there
};

class FsdpPlugin : public ShardedStatePlugin {
 public:
  explicit FsdpPlugin(FsdpOptions options = {});
  explicit FsdpPlugin(NoOptions) : FsdpPlugin() {}
  // On ranks other than all of the world's, or along one axis of several.
  FsdpPlugin(FsdpOptions options, Mesh mesh);
  FsdpPlugin(const FsdpPlugin& other);
  ~FsdpPlugin() override;

  const char* name() const override { return "fsdp"; }
  Layout layout() const override;
  void shard(const Model& model, const Optimizers& optimizers) override;
  void begin(Pass pass, bool sync) override;
  void end(Pass pass) override;
  void sync_grads(const Optimizer& optimizer) override;
  void sync_params(const Optimizer& optimizer) override;
  void hold_whole(bool whole) override;

 protected:
  std::vector<Parameters> message_groups(const Parameters& parameters) const override;

 private:
  FsdpOptions options_;
  std::unique_ptr<ParameterUnits> units_;
};

}  // namespace booster
