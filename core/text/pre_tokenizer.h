// The second stage of a tokeniser: cuts the text into pieces that no token crosses.
#pragma once

#include "core/text/description.h"
#include "core/text/pieces.h"

#include <functional>

namespace booster::text {

using PreTokenizer = std::function<void(Pieces&)>;

// Returns the stage that tokenizer.json's "pre_tokenizer" describes. Throws an error of kind data
// for a type that is not known.
PreTokenizer pre_tokenizer_from(const Description& description);

}  // namespace booster::text
