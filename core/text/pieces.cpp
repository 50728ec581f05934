#include "core/text/pieces.h"

#include "core/text/unicode/unicode.h"

#include <algorithm>

namespace booster::text {
namespace {

// Joins each match with the part before it, unless that is a match too.
Parts merged_with_previous(const Parts& parts) {
  Parts result;
  bool after_match = false;
  for (const Part& part : parts) {
    if (part.match && !after_match && !result.empty())
      result.back().end = part.end;
    else
      result.push_back(part);
    after_match = part.match;
  }
  return result;
}

Parts merged_with_next(const Parts& parts) {
  Parts result;
  bool before_match = false;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    if (part->match && !before_match && !result.empty())
      result.back().start = part->start;
    else
      result.push_back(*part);
    before_match = part->match;
  }
  std::reverse(result.begin(), result.end());
  return result;
}

Parts contiguous(const Parts& parts) {
  Parts result;
  for (const Part& part : parts) {
    if (!result.empty() && result.back().match == part.match)
      result.back().end = part.end;
    else
      result.push_back(part);
  }
  return result;
}

}  // namespace

Parts parts_by(const Pattern& pattern, std::string_view text) {
  Parts parts;
  size_t done = 0;
  pattern.for_each_match(text, [&](size_t start, size_t end) {
    if (done < start) parts.push_back({done, start, false});
    parts.push_back({start, end, true});
    done = end;
  });
  if (done < text.size()) parts.push_back({done, text.size(), false});
  return parts;
}

Parts parts_by(const std::function<bool(char32_t)>& matches, std::string_view text) {
  Parts parts;
  size_t done = 0;
  for_each_character(text, [&](char32_t code, size_t at, int bytes) {
    if (!matches(code)) return;
    if (done < at) parts.push_back({done, at, false});
    done = at + static_cast<size_t>(bytes);
    parts.push_back({at, done, true});
  });
  if (done < text.size()) parts.push_back({done, text.size(), false});
  return parts;
}

Parts arranged(Parts parts, SplitBehavior behavior) {
  switch (behavior) {
    case SplitBehavior::removed:
      std::erase_if(parts, [](const Part& part) { return part.match; });
      return parts;
    case SplitBehavior::isolated: return parts;
    case SplitBehavior::merged_with_previous: return merged_with_previous(parts);
    case SplitBehavior::merged_with_next: return merged_with_next(parts);
    case SplitBehavior::contiguous: return contiguous(parts);
  }
  return parts;
}

void split_pieces(Pieces& pieces, const std::function<Parts(std::string_view)>& split) {
  Pieces result;
  result.reserve(pieces.size());
  for (Piece& piece : pieces) {
    if (piece.token) {
      result.push_back(std::move(piece));
      continue;
    }
    const std::string_view text = piece.text;
    for (const Part& part : split(text))
      if (part.start < part.end)
        result.push_back({std::string(text.substr(part.start, part.end - part.start)), std::nullopt,
                          piece.first && part.start == 0});
  }
  pieces = std::move(result);
}

}  // namespace booster::text
