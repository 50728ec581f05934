// The images that the loaders of all ranks left out.
#pragma once

#include <booster/booster.h>

#include <string>
#include <vector>

namespace example {

// Why, naming the file: each once, whichever ranks saw it, in order, on all ranks. Collective.
std::vector<std::string> on_all_ranks(const std::vector<booster::BadImage>& mine,
                                      const booster::World& world);

// "12 bad images skipped:", the first ten, "  and 2 more: run.json lists all"; "" without any.
std::string describe_bad_images(const std::vector<std::string>& reasons);

}  // namespace example
