// The hardware and software of a result: for run.json, benchmarks and `booster doctor`.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

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

}  // namespace booster
