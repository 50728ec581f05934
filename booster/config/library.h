// Your own strategies, plugins and models from a shared library that a config names:
//   "booster": {"libraries": ["./libmine.so"], "mixed_precision": "mine"}
//
// The library declares in one place what it adds:
//   BOOSTER_LIBRARY {
//     precision_registry().add({"mine", "what it does", {options...}, make_mine});
//   }
// docs/add-a-strategy.md shows a complete library. Loading runs the library's code: name only
// libraries that you trust. Load from one thread, before any other thread reads the registries.
#pragma once

#include "booster/config/registry.h"
#include "platform/version.h"

#include <filesystem>

namespace booster {

// Loads a shared library and lets it add what it has; repeated calls have no effect.
// The path is relative to the working directory; no search path is used. Throws if the library
// cannot be loaded, was built against another version or another copy of booster, or adds a name
// that is taken. Then nothing is added. The ABI tag is read before loading, so no code of a library
// for another version runs.
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
