// Sizes that fit, for errors about those that do not.
#pragma once

#include <cstdint>
#include <string>

namespace booster {

// "1, 2, 3, 6": the numbers of ranks among which n things divide, up to 1024.
inline std::string divisors_of(int64_t n) {
  constexpr int64_t most = 1024;
  std::string all = "1";
  for (int64_t size = 2; size <= n && size <= most; ++size)
    if (n % size == 0) all += ", " + std::to_string(size);
  return all;
}

}  // namespace booster
