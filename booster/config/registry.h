// The plugins and precision strategies that a config may name, each with its description, its
// options and the function that makes it.
//
// Built-ins are in one visible table (builtins.def). A program adds its own by the same call,
// before it reads a config:
//   precision_registry().add({"my_strategy", "what it does", {options...}, make_mine});
// Registering is for one thread, reading for any.
#pragma once

#include "booster/config/checks/other_names.h"
#include "booster/config/options/idle_options.h"
#include "parallel/layout.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace booster {

class Plugin;
class Precision;

template <class Product>
struct RegistryEntry {
  std::string name;
  std::string description;
  OptionTable options = {};
  // Takes checked values: every option of the table is present.
  std::function<std::unique_ptr<Product>(const OptionValues&)> make = {};
  IdleTable idle = {};  // without effect next to certain others: users are told
  // In what a strategy multiplies matrices ("fp16"), so that `booster doctor` can say whether a GPU
  // has units for it. Empty: not known beforehand.
  std::string product_dtype = {};
  // Of a plugin: how the options spread a model when there are ranks enough, which is known without
  // them. Error for options that do not go together. Not given: a plugin that is made says it.
  std::function<Layout(const OptionValues&)> layout = {};
  // Of a plugin, the other way round: options that spread a model so; nothing if it cannot. Not
  // given: `booster plan` does not propose it.
  std::function<std::optional<nlohmann::json>(const Layout&)> options_for = {};
  // What another system calls it: found by that name, listed under its own.
  std::string also_called = {};
};

template <class Product>
class Registry {
 public:
  using Entry = RegistryEntry<Product>;

  // `what` names the kind of product in errors: "plugin".
  Registry(std::string what, std::vector<Entry> built_ins)
      : what_(std::move(what)), entries_(std::move(built_ins)) {}

  // Error if the name is taken or empty.
  void add(Entry entry) {
    check(!entry.name.empty(), "{}: empty name", what_);
    check(!get(entry.name), "{}: name already registered; got {}", what_, entry.name);
    entries_.push_back(std::move(entry));
  }
  const std::vector<Entry>& entries() const { return entries_; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : entries_) names.push_back(entry.name);
    return names;
  }
  // The entry, or null.
  const Entry* get(std::string_view name) const {
    for (const auto& entry : entries_)
      if (entry.name == name || (!name.empty() && entry.also_called == name)) return &entry;
    return nullptr;
  }
  // The entry; an error that lists the legal names and the nearest one.
  const Entry& find(std::string_view name) const {
    const Entry* entry = get(name);
    check(entry, "{}: unknown name; got {}{}", what_, name, legal_words(name, names()));
    return *entry;
  }
  std::unique_ptr<Product> make(std::string_view name) const {
    const Entry& entry = find(name);
    return entry.make(OptionValues(default_values(entry.options)));
  }
  // From a section of a checked config: its "name" and its options.
  std::unique_ptr<Product> make(const OptionValues& options) const {
    const Entry& entry = find(options.get<std::string>("name"));
    auto product = entry.make(options);
    for (std::string& note : idle_notes(options)) product->add_note(std::move(note));
    return product;
  }
  // On those of the section's options that have no effect: "fp8: margin has no effect with ...".
  std::vector<std::string> idle_notes(const OptionValues& options) const {
    const Entry& entry = find(options.get<std::string>("name"));
    auto notes = told_of_idle(entry.idle, entry.options, options);
    for (std::string& note : notes) note.insert(0, entry.name + ": ");
    return notes;
  }

 private:
  std::string what_;
  std::vector<Entry> entries_;
};

Registry<Plugin>& plugin_registry();
Registry<Precision>& precision_registry();

}  // namespace booster
