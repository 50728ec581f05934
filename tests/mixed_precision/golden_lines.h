// Lines of a text file of golden data, as words; `#` begins a comment.
#pragma once

#include "tests/golden_folder.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace booster::testing {

inline std::vector<std::vector<std::string>> golden_lines(const std::string& name) {
  std::ifstream file(test::golden_folder() + "/mixed_precision/" + name);
  REQUIRE_MESSAGE(file.good(), name);
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream stream(line);
    lines.emplace_back();
    for (std::string word; stream >> word;) lines.back().push_back(word);
  }
  REQUIRE(lines.size() > 40);
  return lines;
}

}  // namespace booster::testing
