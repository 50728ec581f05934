#include "booster/config/builtins.h"

namespace booster {

// What Colossal-AI calls it.
RegistryEntry<Plugin> gemini_plugin() {
  RegistryEntry<Plugin> entry = fsdp_plugin();
  entry.name = "gemini";
  entry.description = "another name of fsdp";
  return entry;
}

}  // namespace booster
