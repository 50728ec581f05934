#include "booster/config/builtins.h"

namespace booster {

Registry<Plugin>& plugin_registry() {
  static Registry<Plugin> registry("plugin", {
#define PLUGIN(name) name##_plugin(),
#define STRATEGY(name)
#include "booster/config/builtins.def"
#undef PLUGIN
#undef STRATEGY
                                             });
  return registry;
}

Registry<Precision>& precision_registry() {
  static Registry<Precision> registry("mixed_precision", {
#define PLUGIN(name)
#define STRATEGY(name) name##_strategy(),
#include "booster/config/builtins.def"
#undef PLUGIN
#undef STRATEGY
                                                         });
  return registry;
}

Registry<Model>& model_registry() {
  static Registry<Model> registry("model", built_in_models());
  return registry;
}

}  // namespace booster
