// The command line of the examples: PROGRAM [PRECISION] [LAYOUT].
#pragma once

#include <booster/booster.h>

#include <string>

namespace example {

// A layout is a plugin's name, or one axis of hybrid_parallel that takes all ranks: "pipeline",
// "tensor", or a sequence mode ("split_gather", "all_to_all", "ring_attn").
inline booster::Choice<booster::Plugin> plugin_of(const std::string& layout, int ranks) {
  using booster::HybridParallelPlugin;
  if (layout == "pipeline") return HybridParallelPlugin({.pp_size = ranks});
  if (layout == "tensor") return HybridParallelPlugin({.tp_size = ranks});
  if (layout == "split_gather")
    return HybridParallelPlugin({.tp_size = ranks, .sequence_parallelism_mode = layout});
  if (layout == "all_to_all" || layout == "ring_attn")
    return HybridParallelPlugin({.sp_size = ranks, .sequence_parallelism_mode = layout});
  return layout;
}

inline booster::Booster booster_of(int argc, char** argv, const booster::World& world) {
  const std::string layout = argc > 2 ? argv[2] : world.size > 1 ? "torch_ddp" : "single";
  return booster::Booster(
      {.plugin = plugin_of(layout, world.size), .mixed_precision = argc > 1 ? argv[1] : "fp32"});
}

}  // namespace example
