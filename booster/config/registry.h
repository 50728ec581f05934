// The plugins, precision strategies and models that a config may name, each with its description,
// its options and the function that makes it.
//
// Built-ins are in visible tables (builtins.def, models.cpp). A program adds its own with
// the same call before it reads a config:
//   precision_registry().add({"my_strategy", "what it does", {options...}, make_mine});
//   model_registry().add({"my_model", "what it is", {options...}, make_my_model});
// Register from one thread; any thread may read.
#pragma once

#include "booster/config/options/options.h"
#include "parallel/mesh.h"
#include "platform/program.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace booster {

class Model;
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
  // For plugins: returns the layout that the options give with enough ranks; needs no ranks. Throws
  // for incompatible options. If empty, the library constructs a plugin and queries it.
  std::function<Layout(const OptionValues&)> layout = {};
  // For plugins, the inverse: returns options that give this layout, or nothing if there are none.
  // If empty, `booster plan` does not propose the plugin.
  std::function<std::optional<nlohmann::json>(const Layout&)> options_for = {};
  // Another system's name for it. Lookups find this name; listings show its own.
  std::string also_called = {};
};

template <>
struct RegistryEntry<Model> {
  std::string name;
  std::string description;
  // Besides these, every model has the options of tables/model_start.h.
  OptionTable options = {};
  // Takes checked values: every option of the table has a value.
  std::function<Model(const OptionValues&)> make = {};
  // Throws the errors of `make` without its work. Empty if `make` accepts all checked options or is
  // cheap.
  std::function<void(const OptionValues&)> check = {};
  // The option that holds the number of equal blocks. `booster plan` then measures models with one
  // and with a few. Empty: it measures the whole model.
  std::string depth_option = {};
  std::string also_called = {};
};

template <class Product>
class Registry {
 public:
  using Entry = RegistryEntry<Product>;
  // A handle to a product: unique_ptr<Plugin>, Model.
  using Made = std::invoke_result_t<decltype(Entry::make), const OptionValues&>;

  // `what` names the kind of product in errors: "plugin".
  Registry(std::string what, std::vector<Entry> built_ins)
      : what_(std::move(what)), entries_(std::move(built_ins)) {}

  // Adds an entry. Throws if the name is taken or empty.
  void add(Entry entry);
  const std::vector<Entry>& entries() const { return entries_; }
  std::vector<std::string> names() const;
  // Returns the entry, or null.
  const Entry* get(std::string_view name) const;
  // Returns the entry; throws an error that lists the legal names and the nearest one.
  const Entry& find(std::string_view name) const;
  Made make(std::string_view name) const;
  // Makes a product from a section of a checked config: its "name" and its options.
  Made make(const OptionValues& options) const;
  // Returns notes on the section's options that have no effect: "fp8: margin has no effect with
  // ...". None for models.
  std::vector<std::string> idle_notes(const OptionValues& options) const;

 private:
  std::string what_;
  std::vector<Entry> entries_;
};

Registry<Plugin>& plugin_registry();
Registry<Precision>& precision_registry();
Registry<Model>& model_registry();

// --- your own strategies and plugins from a shared library that a config names:
//   "booster": {"libraries": ["./libmine.so"], "mixed_precision": "mine"}
//
// The library declares its entries in one place:
//   BOOSTER_LIBRARY {
//     precision_registry().add({"mine", "what it does", {options...}, make_mine});
//   }
// docs/add-a-strategy.md shows a complete library. Loading runs the library's code: name only
// libraries that you trust. Load from one thread, before any other thread reads the registries.

// Loads a shared library and lets it add its strategies and plugins; repeated calls have no effect.
// The path is relative to the working directory; no search path is used. Throws, and adds nothing,
// if the library cannot be loaded, was built against another version or copy of booster, or adds a
// taken name. It reads the ABI tag before loading, so no code of a library for another version
// runs.
void load_library(const std::filesystem::path& path);

// A library exports this under the name booster_library.
struct LibraryEntry {
  Registry<Precision>& (*registry)();  // precision_registry, as the library resolves it
  void (*add)();
};

}  // namespace booster

// Begins the function that adds entries; once per library.
#define BOOSTER_LIBRARY                                                                          \
  static void add_to_booster();                                                                  \
  extern "C" __attribute__((visibility("default"))) const char booster_abi_tag[];                \
  const char booster_abi_tag[] = BOOSTER_ABI_TAG;                                                \
  extern "C" __attribute__((visibility("default"))) const booster::LibraryEntry booster_library; \
  const booster::LibraryEntry booster_library = {booster::precision_registry, add_to_booster};   \
  static void add_to_booster()
