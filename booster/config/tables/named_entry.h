// What a config may name beside plugins and strategies (optimizers, schedulers, models): a visible
// table each, with the options of every entry and the function that makes it.
#pragma once

#include "booster/config/options/section.h"

#include <functional>

namespace booster {

template <class Signature>
struct NamedEntry {
  std::string name;
  std::string description;
  OptionTable options;
  std::function<Signature> make;
  // The errors of `make`, without the work; empty where checked options cannot be refused, or
  // making one is little work.
  std::function<void(const OptionValues&)> check = {};
};

// For a section that is chosen by name.
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

// The entry that checked values of such a section name.
template <class Entry>
const Entry& entry_of(const std::vector<Entry>& entries, const OptionValues& values) {
  const auto name = values.get<std::string>("name");
  for (const Entry& entry : entries)
    if (entry.name == name) return entry;
  fail("config: no such name; got {}", name);
}

}  // namespace booster
