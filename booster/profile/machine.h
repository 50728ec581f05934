// What a result was made with and on: for run.json, benchmarks and `booster doctor`.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace booster {

// Model name of the processor, as the system tells it.
std::string processor_name();
// Processors that this process may use.
int usable_cores();
// True if the CPU variant in use multiplies bf16 by instructions of its own.
bool has_native_bf16();
// What mixed_precision "auto" stands for on this machine, and why.
struct AutoPrecision {
  std::string name;    // "bf16" or "fp32"
  std::string reason;  // "this processor multiplies bf16 natively (avx512_bf16)"
};
AutoPrecision auto_precision();
// {"host", "processor", "cores", "memory_gib", "variant", "threads"}
nlohmann::json machine_info();
// {"booster", "onednn", "compiler"}
nlohmann::json library_versions();

}  // namespace booster
