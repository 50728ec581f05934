// Loads the newest checkpoint, for tests that do not check which ones were skipped.
#pragma once

#include "booster/checkpoint/folder/checkpoint.h"
#include "tests/checkpoint_contents.h"

#include <filesystem>
#include <string>

namespace booster::test {

// Ignores a report.
inline void ignore_line(const std::string&) {}

// Returns the newest checkpoint, which must exist.
inline CheckpointContents newest(const std::filesystem::path& root) {
  return load_checkpoint(*latest_checkpoint(root, ignore_line));
}

}  // namespace booster::test
