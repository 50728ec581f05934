// A library with a strategy that only works on one rank, and a plugin.
#include "booster/config/registry.h"
#include "mixed_precision/interface/precision.h"
#include "plugins/interface/plugin.h"

using namespace booster;

class AlonePrecision : public Precision {
 public:
  const char* name() const override { return "alone"; }
  Interaction interaction(const Layout& layout) const override {
    if (layout.data == 1) return {};
    return {.supported = false, .reason = "it wants to be alone", .instead = "fp32"};
  }
};

class QuietPlugin : public Plugin {
 public:
  const char* name() const override { return "quiet"; }
};

BOOSTER_LIBRARY {
  precision_registry().add({"alone", "f32 on one rank", {}, [](const OptionValues&) {
                              return std::make_unique<AlonePrecision>();
                            }});
  plugin_registry().add({"quiet", "one process that says nothing", {}, [](const OptionValues&) {
                           return std::make_unique<QuietPlugin>();
                         }});
}
