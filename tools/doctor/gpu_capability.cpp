#include "tools/doctor/gpu_capability.h"

#include "booster/config/registry.h"
#include "platform/error.h"

#include <charconv>

namespace booster::numerics {

namespace {

struct NeededRow {
  const char* dtype;
  Capability capability;
};
constexpr NeededRow needed[] = {
    {"fp16", {7, 0}}, {"bf16", {8, 0}}, {"fp8", {8, 9}}, {"mxfp8", {10, 0}}};

bool has(Capability gpu, Capability wanted) {
  return gpu.major != wanted.major ? gpu.major > wanted.major : gpu.minor >= wanted.minor;
}

// Returns the most precise of the fast strategies.
const char* best_on(Capability gpu) {
  for (const char* dtype : {"bf16", "fp16"})
    if (has_matrix_units(dtype, gpu)) return dtype;
  return "fp32";
}

}  // namespace

Capability parse_capability(const std::string& text) {
  Capability capability;
  const char* end = text.data() + text.size();
  const auto [dot, major_error] = std::from_chars(text.data(), end, capability.major);
  bool good = major_error == std::errc() && dot != end && *dot == '.' && capability.major > 0;
  if (good) {
    const auto [rest, minor_error] = std::from_chars(dot + 1, end, capability.minor);
    good = minor_error == std::errc() && rest == end && capability.minor >= 0;
  }
  check(good, "capability: not a compute capability; got {}, want MAJOR.MINOR, as 7.5", text);
  return capability;
}

std::vector<std::string> matrix_unit_dtypes() {
  std::vector<std::string> names;
  for (const NeededRow& row : needed) names.emplace_back(row.dtype);
  return names;
}

Capability needed_capability(const std::string& dtype) {
  for (const NeededRow& row : needed)
    if (dtype == row.dtype) return row.capability;
  fail("capability: unknown dtype; got {}{}", dtype, legal_names(dtype, matrix_unit_dtypes()));
}

bool has_matrix_units(const std::string& dtype, Capability gpu) {
  return has(gpu, needed_capability(dtype));
}

std::optional<std::string> capability_warning(const std::string& dtype, const std::string& device,
                                              Capability gpu) {
  const Capability wanted = needed_capability(dtype);
  if (has(gpu, wanted)) return std::nullopt;
  return fmt::format(
      "{} is only fast on NVIDIA GPUs with compute capability {}.{} or higher; the current GPU is "
      "{}, with compute capability {}.{}",
      dtype, wanted.major, wanted.minor, device, gpu.major, gpu.minor);
}

std::string capability_summary(Capability gpu) {
  std::string with, without;
  for (const auto& [dtype, wanted] : needed) {
    std::string& list = has(gpu, wanted) ? with : without;
    list += (list.empty() ? "" : ", ") + std::string(dtype);
    if (!has(gpu, wanted)) list += fmt::format(" (needs {}.{})", wanted.major, wanted.minor);
  }
  return fmt::format("compute capability {}.{}; matrix units for {}{}", gpu.major, gpu.minor,
                     with.empty() ? "none of fp16, bf16, fp8" : with,
                     without.empty() ? "" : "; none for " + without);
}

std::vector<StrategyOnGpu> strategies_on(Capability gpu) {
  std::vector<StrategyOnGpu> all;
  for (const auto& entry : precision_registry().entries()) {
    const std::string& dtype = entry.product_dtype;
    if (dtype.empty()) continue;
    const bool narrows = dtype != "fp32" && dtype != "fp64";
    const bool fast = narrows && has_matrix_units(dtype, gpu);
    all.push_back({entry.name, dtype, fast, narrows && !fast ? best_on(gpu) : ""});
  }
  return all;
}

}  // namespace booster::numerics
