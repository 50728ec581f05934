// Ranks that share a folder for checkpoints.
#pragma once

#include "tests/booster/temporary_folder.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

namespace booster::test {

// Returns that folder, in a rank.
inline std::filesystem::path test_root() { return std::getenv("TEST_ROOT"); }

// Returns `more` plus the variable that gives ranks this folder.
inline std::map<std::string, std::string> with_root(const TemporaryFolder& root,
                                                    std::map<std::string, std::string> more = {}) {
  more.emplace("TEST_ROOT", root.path().string());
  return more;
}

// Runs the test case on `size` ranks that share a new folder; a doctest check that all pass.
inline void run_ranks_at_root(const std::string& test_case, int size,
                              const std::map<std::string, std::string>& environment = {},
                              double seconds = 400) {
  const TemporaryFolder root;
  CHECK(failures(Ranks(test_case, size, with_root(root, environment)).wait(seconds)) == "");
}

}  // namespace booster::test
