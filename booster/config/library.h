// Strategies and plugins of your own from a shared library that a config names:
//   "booster": {"libraries": ["./libmine.so"], "mixed_precision": "mine"}
//
// The library says in one place what it adds:
//   BOOSTER_LIBRARY {
//     precision_registry().add({"mine", "what it does", {options...}, make_mine});
//   }
// docs/add-a-strategy.md shows a whole one. Loading runs the library's code: name only libraries
// that you trust. For one thread, before any other reads the registries.
#pragma once

#include "booster/config/registry.h"
#include "booster/version.h"

#include <filesystem>

namespace booster {

// Loads a shared library and lets it add its strategies and plugins; once, however often it is
// asked for. The path is taken as it stands: from the working directory, never searched for.
// Error if it cannot be loaded, was built against another version or for another copy of booster,
// or adds a name that is taken; then nothing has been added.
void load_library(const std::filesystem::path& path);

// What a library exports under the name booster_library. `version` stays first in every version.
struct LibraryEntry {
  const char* version;                 // of the headers it was built against
  Registry<Precision>& (*registry)();  // precision_registry, as the library finds it
  void (*add)();
};

}  // namespace booster

// Opens the function that adds; once per library.
#define BOOSTER_LIBRARY                                                                          \
  static void add_to_booster();                                                                  \
  extern "C" __attribute__((visibility("default"))) const booster::LibraryEntry booster_library; \
  const booster::LibraryEntry booster_library = {booster::version, booster::precision_registry,  \
                                                 add_to_booster};                                \
  static void add_to_booster()
