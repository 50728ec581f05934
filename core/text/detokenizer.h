// Turns tokens back into text.
#pragma once

#include "core/text/description.h"

#include <functional>
#include <string>
#include <vector>

namespace booster::text {

// Changes the tokens' texts; their concatenation is the text.
using Decoder = std::function<void(std::vector<std::string>&)>;

// Returns the stage that tokenizer.json's "decoder" describes. Throws an error of kind data for a
// type that is not known.
Decoder decoder_from(const Description& description);

}  // namespace booster::text
