// What a result was made with and on: for run.json, benchmarks and `booster doctor`.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace booster {

// Model name of the processor, as the system tells it.
std::string processor_name();
// Processors that this process may use.
int usable_cores();
// {"host", "processor", "cores", "memory_gib", "variant", "threads"}
nlohmann::json machine_info();
// {"booster", "onednn", "compiler"}
nlohmann::json library_versions();

}  // namespace booster
