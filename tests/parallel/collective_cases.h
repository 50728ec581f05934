// Every collective, for tests of properties that all must have.
#pragma once

#include "parallel/groups/group.h"

#include <functional>
#include <string>
#include <vector>

// A wide `out` or `in` has `size` times as many elements. A send does not change `out`.
struct CollectiveCase {
  std::string name;
  std::function<booster::Work(const booster::Group&, const booster::Buffer& out,
                              const booster::Buffer& in)>
      issue;
  bool writes = true;  // writes the output
  bool out_is_wide = false, in_is_wide = false;
};

// Returns the cases for a group of this size, except broadcast; exchanges need more than one rank.
// A send comes before its receive.
std::vector<CollectiveCase> collective_cases(int size);
