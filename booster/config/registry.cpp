#include "booster/config/registry.h"

#include "booster/config/checks/other_names.h"
#include "booster/config/options/option_tables.h"
#include "core/nn/module.h"
#include "mixed_precision/interface/precision.h"
#include "platform/error.h"
#include "plugins/interface/plugin.h"

namespace booster {

template <class Product>
void Registry<Product>::add(Entry entry) {
  check(!entry.name.empty(), "{}: empty name", what_);
  check(!get(entry.name), "{}: name already registered; got {}", what_, entry.name);
  entries_.push_back(std::move(entry));
}

template <class Product>
std::vector<std::string> Registry<Product>::names() const {
  std::vector<std::string> names;
  for (const auto& entry : entries_) names.push_back(entry.name);
  return names;
}

template <class Product>
auto Registry<Product>::get(std::string_view name) const -> const Entry* {
  for (const auto& entry : entries_)
    if (entry.name == name || (!name.empty() && entry.also_called == name)) return &entry;
  return nullptr;
}

template <class Product>
auto Registry<Product>::find(std::string_view name) const -> const Entry& {
  const Entry* entry = get(name);
  if (!entry) fail("{}: unknown name; got {}{}", what_, name, legal_words(name, names()));
  return *entry;
}

template <class Product>
auto Registry<Product>::make(std::string_view name) const -> Made {
  const Entry& entry = find(name);
  return entry.make(OptionValues(default_values(entry.options)));
}

template <class Product>
auto Registry<Product>::make(const OptionValues& options) const -> Made {
  Made product = find(options.get<std::string>("name")).make(options);
  if constexpr (requires(Entry entry) { entry.idle; })
    for (std::string& note : idle_notes(options)) product->add_note(std::move(note));
  return product;
}

template <class Product>
std::vector<std::string> Registry<Product>::idle_notes(const OptionValues& options) const {
  std::vector<std::string> notes;
  if constexpr (requires(Entry entry) { entry.idle; }) {
    const Entry& entry = find(options.get<std::string>("name"));
    notes = told_of_idle(entry.idle, entry.options, options);
    for (std::string& note : notes) note.insert(0, entry.name + ": ");
  }
  return notes;
}

template class Registry<Plugin>;
template class Registry<Precision>;
template class Registry<Model>;

}  // namespace booster
