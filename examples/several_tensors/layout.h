// The command line of these examples: PROGRAM [PRECISION] [LAYOUT].
#pragma once

#include <booster/booster.h>

#include <string>

namespace several_tensors {

// A layout is a plugin's name, or "pipeline": each rank is a stage.
inline booster::Booster booster_of(int argc, char** argv, const booster::World& world) {
  const std::string layout = argc > 2 ? argv[2] : world.size > 1 ? "torch_ddp" : "single";
  const booster::Choice<booster::Plugin> stages =
      booster::HybridParallelPlugin({.pp_size = world.size});
  return booster::Booster({.plugin = layout == "pipeline" ? stages : layout,
                           .mixed_precision = argc > 1 ? argv[1] : "fp32"});
}

}  // namespace several_tensors
