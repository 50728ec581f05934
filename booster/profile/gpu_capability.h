// Which dtypes a GPU multiplies on its matrix units (tensor cores), by its compute capability, and
// what that means for each precision strategy.
//
// fp16 came with 7.0 (Volta), bf16 with 8.0 (Ampere), fp8 with 8.9 (Ada, Hopper) and mxfp8, fp8
// with a scale per block of 32, with 10.0 (Blackwell). Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace booster::numerics {

struct Capability {
  int major = 0, minor = 0;
};
// "7.5". Error for other text.
Capability parse_capability(const std::string& text);

// Dtypes that some GPU has matrix units for: fp16, bf16, fp8, mxfp8.
std::vector<std::string> matrix_unit_dtypes();
// Error if it is none of them.
Capability needed_capability(const std::string& dtype);
bool has_matrix_units(const std::string& dtype, Capability gpu);

// Nothing if the GPU has matrix units for the dtype, else a sentence that names both capabilities.
std::optional<std::string> capability_warning(const std::string& dtype, const std::string& device,
                                              Capability gpu);
// "compute capability 8.0; matrix units for fp16, bf16; none for fp8 (needs 8.9), ..."
std::string capability_summary(Capability gpu);

// The dtype of a strategy's products on that GPU, and what to use instead if that gains nothing.
struct StrategyOnGpu {
  std::string strategy;
  std::string dtype;    // "fp16"; "fp32" if nothing is narrowed
  bool fast = false;    // on matrix units
  std::string instead;  // a fast strategy; "" if this one is, or none is
};
// For every registered strategy that says in what it multiplies.
std::vector<StrategyOnGpu> strategies_on(Capability gpu);

}  // namespace booster::numerics
