#include "booster/pairing.h"

#include "kernels/system/error.h"

namespace booster {

void check_pair(const Precision& precision, const Plugin& plugin, const Layout& layout) {
  const Interaction answer = precision.interaction(layout);
  check(answer.supported, "booster: {} does not work with {}: {}; use {}", precision.name(),
        plugin.name(), answer.reason, answer.instead);
}

Layout typical_layout(const Plugin& plugin) {
  Layout layout = plugin.layout();
  if (layout.ranks() == 1 && std::string_view(plugin.name()) != "single") layout.data = 2;
  return layout;
}

}  // namespace booster
