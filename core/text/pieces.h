// A text on its way to tokens: pieces, of which some are tokens already.
#pragma once

#include "core/text/pattern.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace booster::text {

struct Piece {
  std::string text;
  std::optional<int32_t> token;  // an added token: no stage changes it
  bool first = false;            // it starts where the whole text starts
};
using Pieces = std::vector<Piece>;

// What happens to the matches of a pattern that splits a text. Names as in tokenizer.json.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

// A part [start, end) of a text.
struct Part {
  size_t start = 0;
  size_t end = 0;
  bool match = false;
};
using Parts = std::vector<Part>;

// Returns all of `text` as matches of the pattern and the parts between them.
Parts parts_by(const Pattern& pattern, std::string_view text);
// The same for characters: each one for which `matches` holds is a match.
Parts parts_by(const std::function<bool(char32_t)>& matches, std::string_view text);
// Returns `parts` joined or without some of them, as `behavior` says.
Parts arranged(Parts parts, SplitBehavior behavior);

// Replaces each piece that is no token by the parts that split(text) returns. Empty parts go.
void split_pieces(Pieces& pieces, const std::function<Parts(std::string_view)>& split);

}  // namespace booster::text
