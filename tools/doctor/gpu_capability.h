// The dtypes that a GPU multiplies on its matrix units (tensor cores), by compute capability, and
// the effect on each precision strategy.
//
//   fp16    7.0   Volta
//   bf16    8.0   Ampere
//   fp8     8.9   Ada, Hopper
//   mxfp8  10.0   Blackwell; fp8 with a scale per block of 32
// Pure; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace booster::numerics {

struct Capability {
  int major = 0, minor = 0;
};
// Parses "7.5". Throws for other text.
Capability parse_capability(const std::string& text);

// Returns the dtypes for which some GPU has matrix units: fp16, bf16, fp8, mxfp8.
std::vector<std::string> matrix_unit_dtypes();
// Returns the first capability with matrix units for the dtype. Throws for any other dtype.
Capability needed_capability(const std::string& dtype);
bool has_matrix_units(const std::string& dtype, Capability gpu);

// Returns nothing if the GPU has matrix units for the dtype, else a sentence that names both
// capabilities.
std::optional<std::string> capability_warning(const std::string& dtype, const std::string& device,
                                              Capability gpu);
// Returns "compute capability 8.0; matrix units for fp16, bf16; none for fp8 (needs 8.9), ...".
std::string capability_summary(Capability gpu);

// The dtype of a strategy's products on a GPU, and an alternative if the strategy gains nothing
// there.
struct StrategyOnGpu {
  std::string strategy;
  std::string dtype;    // "fp16"; "fp32" if nothing is narrowed
  bool fast = false;    // on matrix units
  std::string instead;  // a fast strategy; "" if this one is fast or none is
};
// Returns a row for every registered strategy that declares the dtype of its products.
std::vector<StrategyOnGpu> strategies_on(Capability gpu);

}  // namespace booster::numerics
