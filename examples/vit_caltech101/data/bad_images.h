// The images that the loaders of all ranks skipped.
#pragma once

#include <booster/booster.h>

#include <string>
#include <vector>

namespace example {

// Returns the reasons on all ranks, in order. Each names a file, and appears once even if several
// ranks skipped that file. Collective.
std::vector<std::string> on_all_ranks(const std::vector<booster::BadImage>& mine,
                                      const booster::World& world);

// Returns "12 bad images skipped:", the first ten, "  and 2 more: run.json lists all"; "" if there
// are none.
std::string describe_bad_images(const std::vector<std::string>& reasons);

}  // namespace example
