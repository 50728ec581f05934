// single: one process trains the whole model. The behaviour of `Plugin`, under its public name.
#pragma once

#include "plugins/built_in.h"
#include "plugins/interface/plugin.h"

namespace booster {

class Single : public Plugin {
 public:
  // Throws if a run tool started several ranks, which would train separately, unless
  // `on_every_rank` is set.
  explicit Single(SingleOptions options = {});
};

}  // namespace booster
