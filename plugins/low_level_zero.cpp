#include "plugins/low_level_zero.h"

#include "parallel/mesh.h"
#include "platform/copies.h"

#include <utility>

namespace booster {

namespace {

constexpr const char* bucket_option = "low_level_zero: reduce_bucket_size_in_m";

}  // namespace

LowLevelZero::LowLevelZero(LowLevelZeroOptions options)
    : LowLevelZero(options, launch_from_env().group()) {}

LowLevelZero::LowLevelZero(LowLevelZeroOptions options, Mesh mesh)
    : ShardedStatePlugin(std::move(mesh),
                         {.gradients = {.bucket_elements = message_elements(
                                            bucket_option, options.reduce_bucket_size_in_m),
                                        .overlap = options.overlap_communication,
                                        .free_whole = options.stage == 2},
                          .gathers_late = options.overlap_allgather,
                          .cpu_offload = options.cpu_offload}) {
  zero_stage_ = static_cast<int>(options.stage);
  check(options.stage == 1 || options.stage == 2,
        "low_level_zero: unknown stage; got {}, want 1 (optimizer state) or 2 (and gradients), or "
        "fsdp (and parameters)",
        options.stage);
}

PluginMaker LowLevelZeroPlugin(LowLevelZeroOptions options) {
  return copies_of<Plugin>(LowLevelZero(std::move(options)));
}
PluginMaker LowLevelZeroPlugin(LowLevelZeroOptions options, Mesh mesh) {
  return copies_of<Plugin>(LowLevelZero(std::move(options), std::move(mesh)));
}

}  // namespace booster
