// Names of a checkpoint's folder and files; internal to this folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace booster {

inline constexpr std::string_view step_folder_prefix = "step-";
inline constexpr const char* state_name = "state.json";

// Returns the step of a folder named step-N, or -1.
int64_t step_of(const std::filesystem::path& folder);

}  // namespace booster
