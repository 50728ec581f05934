// The plugins and precision strategies that a config may name, each with its description, its
// options and the function that makes it.
//
// Built-ins are in one visible table (builtins.def). A program adds its own with the same call
// before it reads a config:
//   precision_registry().add({"my_strategy", "what it does", {options...}, make_mine});
// Register from one thread; any thread may read.
#pragma once

#include "booster/config/checks/other_names.h"
#include "booster/config/options/idle_options.h"
#include "parallel/mesh.h"

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
  // Takes checked values: every option of the table has a value.
  std::function<std::unique_ptr<Product>(const OptionValues&)> make = {};
  IdleTable idle = {};  // options without effect in some combinations; users see a note
  // The dtype in which a strategy multiplies matrices ("fp16"). `booster doctor` uses it to report
  // whether a GPU has matrix units for it. Empty: not known beforehand.
  std::string product_dtype = {};
  // For plugins: returns how the options spread a model when there are enough ranks; needs no
  // ranks. Throws for options that do not fit together. If empty, a constructed plugin answers
  // instead.
  std::function<Layout(const OptionValues&)> layout = {};
  // For plugins, the inverse: returns options that give this layout, or nothing if there are none.
  // If empty, `booster plan` does not propose the plugin.
  std::function<std::optional<nlohmann::json>(const Layout&)> options_for = {};
  // Another system's name for it. Lookups find this name; listings show its own.
  std::string also_called = {};
};

template <class Product>
class Registry {
 public:
  using Entry = RegistryEntry<Product>;

  // `what` names the kind of product in errors: "plugin".
  Registry(std::string what, std::vector<Entry> built_ins)
      : what_(std::move(what)), entries_(std::move(built_ins)) {}

  // Throws if the name is taken or empty.
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
  // Returns the entry, or null.
  const Entry* get(std::string_view name) const {
    for (const auto& entry : entries_)
      if (entry.name == name || (!name.empty() && entry.also_called == name)) return &entry;
    return nullptr;
  }
  // Returns the entry; throws an error that lists the legal names and the nearest one.
  const Entry& find(std::string_view name) const {
    const Entry* entry = get(name);
    check(entry, "{}: unknown name; got {}{}", what_, name, legal_words(name, names()));
    return *entry;
  }
  std::unique_ptr<Product> make(std::string_view name) const {
    const Entry& entry = find(name);
    return entry.make(OptionValues(default_values(entry.options)));
  }
  // Makes a product from a section of a checked config: its "name" and its options.
  std::unique_ptr<Product> make(const OptionValues& options) const {
    const Entry& entry = find(options.get<std::string>("name"));
    auto product = entry.make(options);
    for (std::string& note : idle_notes(options)) product->add_note(std::move(note));
    return product;
  }
  // Returns notes on the section's options that have no effect: "fp8: margin has no effect with
  // ...".
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
