// low_level_zero: data parallelism that shards optimizer state (ZeRO stages 1 and 2, by Rajbhandari
// et al., "ZeRO: memory optimizations toward training trillion parameter models", SC'20).
//
// Every rank has the whole parameters: after a step all ranks gather them. With P parameters on N
// ranks, AdamW in f32 keeps 4 P bytes of weights and 8 P / N of state. Stage 1 holds whole
// gradients until a pass ends, 4 P bytes. Stage 2 frees them as their buckets are sent: 4 P / N and
// some buckets remain. Inside no_sync both hold whole gradients.
#pragma once

#include "plugins/built_in.h"
#include "plugins/sharded_state.h"

namespace booster {

class LowLevelZero : public ShardedStatePlugin {
 public:
  explicit LowLevelZero(LowLevelZeroOptions options = {});
  // Shards over ranks other than all ranks of the world, or along one axis of several.
  LowLevelZero(LowLevelZeroOptions options, Mesh mesh);

  const char* name() const override { return "low_level_zero"; }
};

}  // namespace booster
