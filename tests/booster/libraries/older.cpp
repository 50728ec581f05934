// A library as if built with another version of the headers.
#include "booster/config/library.h"

static void add_nothing() {}

extern "C" __attribute__((visibility("default"))) const booster::LibraryEntry booster_library;
const booster::LibraryEntry booster_library = {"0.0.9", booster::precision_registry, add_nothing};
