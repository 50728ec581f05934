// A folder of this process, for targets whose parsers read folders. The process's temporary folder
// contains it; the code that creates that one (replay.cpp, scripts/fuzz.sh) removes it, however the
// process ends.
#pragma once

#include "tests/fuzz/target.h"

#include <filesystem>
#include <fstream>

namespace booster::fuzz {

inline std::filesystem::path own_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "fuzz-XXXXXX").string();
  promise(mkdtemp(name.data()), "a temporary folder can be made");
  return name;
}

// Not fsynced, unlike the library's own writers: a fuzzer writes thousands.
inline void put_file(const std::filesystem::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary) << content;
}

}  // namespace booster::fuzz
