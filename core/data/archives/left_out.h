// What a listing of files does not read, by reason: how many, and the first of them. For one
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace booster {

class LeftOut {
 public:
  // Counts one for this reason, such as "hidden".
  void add(const std::string& reason, const std::string& path);
  bool empty() const { return reasons_.empty(); }
  // "12 entries are not read: hidden (2: .DS_Store), without an image's extension (10: a/b.txt)";
  // "" if there are none.
  std::string text() const;

 private:
  struct Some {
    std::string reason;
    int64_t count = 0;
    std::string first;  // by name
  };
  std::vector<Some> reasons_;
};

}  // namespace booster
