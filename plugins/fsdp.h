// fsdp: data parallelism that shards everything over the ranks (ZeRO stage 3: Rajbhandari et al.,
// SC'20; PyTorch's FSDP: Zhao et al., VLDB 2023).
//
// In addition to what low_level_zero shards, it shards the parameters. With P parameters on N
// ranks, AdamW in f32 keeps 16 P / N bytes. In addition it keeps the whole parameters of the
// computing module ("unit") and of the next one. A model made under LazyInit
// (core/tensor/absence.h) is sharded parameter by parameter, so it may exceed one rank's memory.
//
// Parameters keep shape and name. Reading or writing their values outside a pass throws, except
// within WholeParameters (booster/training/boosted.h). Writing whole values by copy_, as
// load_state_dict does, keeps this rank's part. If autocast casts parameters, the 16-bit copies
// stay from forward to backward. Inside no_sync gradients are whole.
#pragma once

#include "plugins/built_in.h"
#include "plugins/parameters/parameter_units.h"
#include "plugins/sharded_state.h"

namespace booster {

class Fsdp : public ShardedStatePlugin {
 public:
  explicit Fsdp(FsdpOptions options = {});
  // Shards over ranks other than all ranks of the world, or along one axis of several.
  Fsdp(FsdpOptions options, Mesh mesh);
  Fsdp(const Fsdp& other);
  ~Fsdp() override;

  const char* name() const override { return "fsdp"; }
  void shard(const Model& model, const Optimizers& optimizers) override;
  PassScope begin(const PassStart& start) override;
  void sync_grads(const Optimizer& optimizer) override;
  void sync_params(const Optimizers& stepped) override;
  void hold_whole(bool whole) override;

 protected:
  std::vector<Parameters> message_groups(const Parameters& parameters) const override;

 private:
  FsdpOptions options_;
  std::unique_ptr<ParameterUnits> units_;
};

}  // namespace booster
