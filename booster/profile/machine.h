// The parts of a result's origin (profiler.h): hardware, and the revisions of the sources. For
// `booster doctor` and benchmarks. Thread-safe.
#pragma once

#include "booster/profile/profiler.h"

#include <string>

namespace booster {

// Returns the processor's model name, as the system reports it.
std::string processor_name();
// Returns the number of processors that this process may use.
int usable_cores();
// Returns true if the CPU variant in use has native bf16 multiplication.
bool has_native_bf16();

// Runs git. Returns the commit of the working folder, as 40 digits, followed by "-dirty" if tracked
// files have changes. Returns "" if the folder is in no work tree or git is missing.
std::string folder_revision();

// Returns the same for the folder and the time of the library's build; "" outside of a work tree.
const char* build_revision();

}  // namespace booster
