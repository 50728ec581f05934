// The origin of a result: hardware, software, the command and the revisions of the sources. For
// run.json, benchmarks and `booster doctor`.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace booster {

// Returns the processor's model name, as the system reports it.
std::string processor_name();
// Returns the number of processors that this process may use.
int usable_cores();
// Returns true if the CPU variant in use has native bf16 multiplication.
bool has_native_bf16();
// The strategy that mixed_precision "auto" selects on this machine, and why.
struct AutoPrecision {
  std::string name;    // "bf16" or "fp32"
  std::string reason;  // "this processor multiplies bf16 natively (avx512_bf16)"
};
AutoPrecision auto_precision();
// Returns {"host", "processor", "cores", "memory_gib", "variant", "threads"}.
nlohmann::json machine_info();
// Returns {"booster", "onednn", "compiler"}.
nlohmann::json library_versions();

// Returns the words that started this process, the program's name first.
std::vector<std::string> command_line();

// Runs git. Returns the commit of the working folder, as 40 digits, followed by "-dirty" if tracked
// files have changes. Returns "" if the folder is in no work tree or git is missing.
std::string folder_revision();

// Returns the same for the folder and the time of the library's build; "" outside of a work tree.
const char* build_revision();

// Returns {"folder": revision of the working folder, "library": revision of the build}, with null
// for unknown ones.
nlohmann::json revisions();

}  // namespace booster
