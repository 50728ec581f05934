// Files that a listing does not read: the count and the first name for each reason. For one thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace booster {

class LeftOut {
 public:
  // Counts one file for this reason, such as "hidden".
  void add(const std::string& reason, const std::string& path);
  bool empty() const { return reasons_.empty(); }
  // Returns "12 entries are not read: hidden (2: .DS_Store), without an image's extension (10:
  // a/b.txt)"; "" if there are none.
  std::string text() const;

 private:
  struct Some {
    std::string reason;
    int64_t count = 0;
    std::string first;  // in name order
  };
  std::vector<Some> reasons_;
};

}  // namespace booster
