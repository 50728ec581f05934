// Selects the modules of a model that are units: gathered, recomputed or placed as a whole.
#pragma once

#include "core/nn/module.h"

#include <string>
#include <vector>

namespace booster {

// Returns the outermost modules with parameters whose names match a pattern, in the order of names.
// In a pattern ("blocks.*") * matches any text and ? any letter. Without patterns it returns the
// model's blocks: the elements of its lists (modules named by a number), or else its direct parts.
// Throws an error that starts with `option` for a pattern without a match.
std::vector<Module*> modules_to_wrap(Module& model, const std::vector<std::string>& patterns,
                                     const char* option);

}  // namespace booster
