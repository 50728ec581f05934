// single: one process trains the whole model. The behaviour of `Plugin`, under its public name.
#pragma once

#include "core/nn/no_options.h"
#include "plugins/interface/plugin.h"

namespace booster {

struct SingleOptions {
  bool on_every_rank = false;  // each rank of a multi-rank run trains its own model
};

class SinglePlugin : public Plugin {
 public:
  // Throws if a run tool started several ranks, unless `on_every_rank`: they would train
  // separately.
  explicit SinglePlugin(SingleOptions options = {});
  explicit SinglePlugin(NoOptions) : SinglePlugin() {}
};

}  // namespace booster
