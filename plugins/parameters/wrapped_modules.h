// Which modules of a model are treated as units: gathered, recomputed or placed as a whole.
#pragma once

#include "core/nn/module.h"

#include <string>
#include <vector>

namespace booster {

// The outermost modules with parameters whose names match one of the patterns ("blocks.*", where *
// stands for any text and ? for any letter), in the order of names. Without patterns: the blocks of
// the model, which are the elements of its lists (modules named by a number), or else its direct
// parts. Error, which `option` begins, for a pattern that matches none.
std::vector<Module*> modules_to_wrap(Module& model, const std::vector<std::string>& patterns,
                                     const char* option);

}  // namespace booster
