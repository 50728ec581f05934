// The first stage of a tokeniser: changes the text itself (letters' case, accents, normal form).
#pragma once

#include "core/text/description.h"

#include <functional>
#include <string>

namespace booster::text {

using Normalizer = std::function<std::string(std::string)>;

// Returns the stage that tokenizer.json's "normalizer" describes. Throws an error of kind data for
// a type that is not known.
Normalizer normalizer_from(const Description& description);

}  // namespace booster::text
