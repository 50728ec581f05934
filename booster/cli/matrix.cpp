#include "booster/cli/commands.h"
#include "booster/registry.h"
#include "mixed_precision/precision.h"
#include "plugins/plugin.h"

#include <fmt/format.h>

namespace booster::cli {

namespace {

std::string cell(const Interaction& interaction) {
  if (!interaction.supported) return "no";
  std::string text = fmt::format("yes, {} wire", name_of(interaction.wire));
  if (interaction.ranks_agree) text += ", agree";
  return text;
}

// Where a plugin spreads nothing when it is alone, it is asked as if it had two ranks.
Layout typical_layout(const Plugin& plugin) {
  Layout layout = plugin.layout();
  const bool alone = layout.data * layout.tensor * layout.pipeline * layout.sequence == 1;
  if (alone && std::string_view(plugin.name()) != "single") layout.data = 2;
  return layout;
}

}  // namespace

int matrix() {
  constexpr int width = 24;
  std::vector<std::string> refusals;
  fmt::print("{:<{}}", "plugin", width);
  for (const auto& strategy : precision_registry().names()) fmt::print("{:<{}}", strategy, width);
  fmt::print("\n");
  for (const auto& plugin_name : plugin_registry().names()) {
    const Layout layout = typical_layout(*plugin_registry().make(plugin_name));
    fmt::print("{:<{}}", plugin_name, width);
    for (const auto& strategy : precision_registry().names()) {
      const Interaction interaction = precision_registry().make(strategy)->interaction(layout);
      fmt::print("{:<{}}", cell(interaction), width);
      if (!interaction.supported) {
        refusals.push_back(fmt::format("{} with {}: {}; use {}", strategy, plugin_name,
                                       interaction.reason, interaction.instead));
      }
    }
    fmt::print("\n");
  }
  fmt::print(
      "wire: dtype of gradients between ranks; agree: ranks agree on overflow before a step\n");
  for (const auto& refusal : refusals) fmt::print("{}\n", refusal);
  return 0;
}

}  // namespace booster::cli
