// Every collective, for tests of what all of them must do.
#pragma once

#include "parallel/groups/group.h"

#include <functional>
#include <string>
#include <vector>

// `out` and `in` have `size` times as many elements where they are wide. A send leaves `out` alone.
struct CollectiveCase {
  std::string name;
  std::function<booster::Work(const booster::Group&, const booster::Buffer& out,
                              const booster::Buffer& in)>
      issue;
  bool writes = true;  // the output
  bool out_is_wide = false, in_is_wide = false;
};

// Those for a group of this size, but for broadcast; more than one rank can also exchange. A send
// comes before the receive that it is for.
std::vector<CollectiveCase> collective_cases(int size);
