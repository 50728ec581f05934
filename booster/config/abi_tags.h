// The ABI tags in a file (platform/version.h). The file is read, not loaded: nothing of it runs.
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace booster {

// What follows "booster-abi: " wherever any file has that: "0.1.0 with libstdc++".
std::set<std::string> abi_tags(const std::filesystem::path& path);

}  // namespace booster
