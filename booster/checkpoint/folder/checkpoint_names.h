// What a checkpoint's folder and its files are called; for the files of this room only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

namespace booster {

inline constexpr std::string_view step_folder_prefix = "step-";
inline constexpr const char* state_name = "state.json";

// The step of a folder named step-N, or -1.
int64_t step_of(const std::filesystem::path& folder);

}  // namespace booster
