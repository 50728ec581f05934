// Entries that a config may name and that no registry (registry.h) holds: optimizers and
// schedulers. Each kind has a visible table with the options of every entry and the function that
// makes it.
#pragma once

#include "booster/config/options/options.h"

#include <functional>

namespace booster {

template <class Signature>
struct NamedEntry {
  std::string name;
  std::string description;
  OptionTable options;
  std::function<Signature> make;
};

// Returns the choices of a section that selects an entry by name.
template <class Entries>
std::vector<NamedTable> choices_of(const Entries& entries) {
  std::vector<NamedTable> choices;
  for (const auto& entry : entries) {
    choices.push_back({entry.name, entry.description, entry.options});
    if constexpr (requires { entry.also_called; })
      if (!entry.also_called.empty())
        choices.push_back({entry.also_called, entry.description, entry.options});
  }
  return choices;
}

// Returns the entry that a section's checked values name.
template <class Entry>
const Entry& entry_of(const std::vector<Entry>& entries, const OptionValues& values) {
  const auto name = values.get<std::string>("name");
  for (const Entry& entry : entries)
    if (entry.name == name) return entry;
  fail("config: unknown name; got {}", name);
}

}  // namespace booster
