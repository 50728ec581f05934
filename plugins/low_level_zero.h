// low_level_zero: data parallelism that shards optimizer state (ZeRO stages 1 and 2, by Rajbhandari
// et al., "ZeRO: memory optimizations toward training trillion parameter models", SC'20).
//
// Every rank has the whole parameters: after a step all ranks gather them. With P parameters on N
// ranks, AdamW in f32 keeps 4 P bytes of weights and 8 P / N of state. Stage 1 holds whole
// gradients until a pass ends, 4 P bytes. Stage 2 frees them as their buckets are sent, so that 4 P
// / N and some buckets remain. Inside no_sync both hold whole gradients.
#pragma once

#include "core/nn/no_options.h"
#include "plugins/sharded_state.h"

namespace booster {

struct LowLevelZeroOptions {
  int64_t stage = 1;                    // 1: optimizer state; 2: also gradients
  double reduce_bucket_size_in_m = 12;  // elements per message, in units of 2^20
  bool overlap_communication = true;    // send buckets during backward
  bool overlap_allgather = false;       // step does not wait for the parameters; each arrives when
                                        // something, usually its layer, first reads or writes it
  bool cpu_offload = false;  // a GPU's optimizer state is in host memory, and steps run there
};

class LowLevelZeroPlugin : public ShardedStatePlugin {
 public:
  explicit LowLevelZeroPlugin(LowLevelZeroOptions options = {});
  explicit LowLevelZeroPlugin(NoOptions) : LowLevelZeroPlugin() {}
  // On ranks other than all ranks of the world, or along one axis of several.
  LowLevelZeroPlugin(LowLevelZeroOptions options, Mesh mesh);

  const char* name() const override { return "low_level_zero"; }
  Layout layout() const override;

 private:
  int stage_;
};

}  // namespace booster
