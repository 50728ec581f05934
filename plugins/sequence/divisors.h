// Lists valid sizes, for errors about invalid ones.
#pragma once

#include <cstdint>
#include <string>

namespace booster {

// Returns "1, 2, 3, 6": the numbers of ranks, up to 1024, among which n items divide evenly.
inline std::string divisors_of(int64_t n) {
  constexpr int64_t most = 1024;
  std::string all = "1";
  for (int64_t size = 2; size <= n && size <= most; ++size)
    if (n % size == 0) all += ", " + std::to_string(size);
  return all;
}

}  // namespace booster
