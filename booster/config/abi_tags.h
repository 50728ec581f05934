// Finds the ABI tags in a file (platform/program.h). It reads the file without loading it, so none
// of its code runs.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace booster {

// Returns every text that follows "booster-abi: " in the file: "0.1.0 with libstdc++".
std::set<std::string> abi_tags(const std::filesystem::path& path);

}  // namespace booster
