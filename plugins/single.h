// single: one process trains the whole model. What `Plugin` does, under the name that programs use.
#pragma once

#include "core/nn/no_options.h"
#include "plugins/interface/plugin.h"

namespace booster {

struct SingleOptions {
  bool on_every_rank = false;  // where a run tool started several: each trains a model of its own
};

class SinglePlugin : public Plugin {
 public:
  // Error where a run tool started several ranks, unless `on_every_rank`: they would train apart.
  explicit SinglePlugin(SingleOptions options = {});
  explicit SinglePlugin(NoOptions) : SinglePlugin() {}
};

}  // namespace booster
