#include "plugins/single.h"

#include "parallel/mesh.h"
#include "platform/copies.h"
#include "platform/error.h"

namespace booster {

Single::Single(SingleOptions options) {
  if (options.on_every_rank) return;
  const World world = launch_from_env();
  const bool by_tool = world.launcher == "torchrun";
  check(world.size == 1,
        "single: {} started {} ranks, and each would train its own model; want torch_ddp, one "
        "process, or on_every_rank = true if this is intended",
        by_tool ? "booster run (or torchrun)" : world.launcher, world.size);
}

PluginMaker SinglePlugin(SingleOptions options) {
  return copies_of<Plugin>(Single(std::move(options)));
}

}  // namespace booster
