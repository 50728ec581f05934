#include "booster/config/pairing.h"

#include "platform/error.h"

namespace booster {

void check_pair(const Precision& precision, std::string_view plugin, const Layout& layout) {
  const Interaction answer = precision.interaction(layout);
  check(answer.supported, "booster: {} does not work with {}: {}; use {}", precision.name(), plugin,
        answer.reason, answer.instead);
}

Layout typical_layout(const RegistryEntry<Plugin>& plugin, const OptionValues& options) {
  Layout layout = plugin.layout ? plugin.layout(options) : plugin.make(options)->layout();
  if (layout.ranks() == 1 && plugin.name != "single") layout.data = 2;
  return layout;
}

}  // namespace booster
