#include "plugins/low_level_zero.h"

#include "parallel/mesh.h"

#include <utility>

namespace booster {

namespace {

constexpr const char* bucket_option = "low_level_zero: reduce_bucket_size_in_m";

}  // namespace

LowLevelZeroPlugin::LowLevelZeroPlugin(LowLevelZeroOptions options)
    : LowLevelZeroPlugin(options, launch_from_env().group()) {}

LowLevelZeroPlugin::LowLevelZeroPlugin(LowLevelZeroOptions options, Mesh mesh)
    : ShardedStatePlugin(
          std::move(mesh),
          {.gradients = {.bucket_elements =
                             message_elements(bucket_option, options.reduce_bucket_size_in_m),
                         .overlap = options.overlap_communication,
                         .free_whole = options.stage == 2},
           .gathers_late = options.overlap_allgather,
           .cpu_offload = options.cpu_offload}),
      stage_(static_cast<int>(options.stage)) {
  check(options.stage == 1 || options.stage == 2,
        "low_level_zero: unknown stage; got {}, want 1 (optimizer state) or 2 (and gradients), or "
        "fsdp (and parameters)",
        options.stage);
}

Layout LowLevelZeroPlugin::layout() const {
  Layout layout = mesh().layout();
  layout.zero_stage = stage_;
  return layout;
}

}  // namespace booster
