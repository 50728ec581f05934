#include "core/text/pre_tokenizer.h"

#include "core/text/unicode/byte_level.h"
#include "core/text/unicode/unicode.h"

#include <map>
#include <utility>

namespace booster::text {
namespace {

// GPT-2's pattern (encoder.py of https://github.com/openai/gpt-2).
constexpr const char* gpt2_words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

SplitBehavior behavior_of(const Description& d, std::string_view fallback) {
  static const std::map<std::string, SplitBehavior> behaviors = {
      {"Removed", SplitBehavior::removed},
      {"Isolated", SplitBehavior::isolated},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next},
      {"Contiguous", SplitBehavior::contiguous},
  };
  const std::string name = d.text("behavior", fallback);
  const auto found = behaviors.find(name);
  if (found == behaviors.end())
    d.refuse("behavior; got '" + name +
             "', want Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
  return found->second;
}

PreTokenizer by_pattern(Pattern pattern, SplitBehavior behavior, bool invert = false) {
  return [pattern = std::move(pattern), behavior, invert](Pieces& pieces) {
    split_pieces(pieces, [&](std::string_view text) {
      Parts parts = parts_by(pattern, text);
      if (invert)
        for (Part& part : parts) part.match = !part.match;
      return arranged(std::move(parts), behavior);
    });
  };
}

PreTokenizer by_characters(std::function<bool(char32_t)> matches, SplitBehavior behavior) {
  return [matches = std::move(matches), behavior](Pieces& pieces) {
    split_pieces(
        pieces, [&](std::string_view text) { return arranged(parts_by(matches, text), behavior); });
  };
}

PreTokenizer in_turn(std::vector<PreTokenizer> stages) {
  return [stages = std::move(stages)](Pieces& pieces) {
    for (const auto& stage : stages) stage(pieces);
  };
}

// Calls change(piece) for each piece that is no token yet.
template <class Change>
void for_each_text(Pieces& pieces, Change&& change) {
  for (Piece& piece : pieces)
    if (!piece.token) change(piece);
}

PreTokenizer byte_level(const Description& d) {
  std::vector<PreTokenizer> stages;
  if (d.flag("add_prefix_space", true))
    stages.push_back([](Pieces& pieces) {
      for_each_text(pieces, [](Piece& piece) {
        if (!piece.text.starts_with(' ')) piece.text.insert(0, 1, ' ');
      });
    });
  if (d.flag("use_regex", true))
    stages.push_back(by_pattern(Pattern::regular_expression(gpt2_words), SplitBehavior::isolated));
  stages.push_back([](Pieces& pieces) {
    for_each_text(pieces, [](Piece& piece) { piece.text = characters_of_bytes(piece.text); });
  });
  return in_turn(std::move(stages));
}

PreTokenizer metaspace(const Description& d) {
  const std::string mark = d.text("replacement", "\u2581");
  std::string scheme = d.text("prepend_scheme", "always");
  if (!d.flag("add_prefix_space", true)) scheme = "never";  // files before version 0.15
  if (scheme != "always" && scheme != "first" && scheme != "never")
    d.refuse("prepend_scheme; got '" + scheme + "', want always, first or never");
  std::vector<PreTokenizer> stages;
  stages.push_back([mark, scheme, space = Pattern::literal(" ")](Pieces& pieces) {
    for_each_text(pieces, [&](Piece& piece) {
      piece.text = space.replaced(piece.text, mark);
      const bool wanted = scheme == "always" || (scheme == "first" && piece.first);
      if (wanted && !piece.text.starts_with(mark)) piece.text.insert(0, mark);
    });
  });
  if (d.flag("split", true))
    stages.push_back(by_pattern(Pattern::literal(mark), SplitBehavior::merged_with_next));
  return in_turn(std::move(stages));
}

// Words, and runs of characters that are neither words nor white space.
PreTokenizer by_classes() {
  const auto class_of = [](char32_t code) {
    return is_white_space(code) ? 0 : is_word(code) ? 1 : 2;
  };
  return [class_of](Pieces& pieces) {
    split_pieces(pieces, [&](std::string_view text) {
      Parts parts;
      int last = 0;
      for_each_character(text, [&](char32_t code, size_t at, int bytes) {
        const int now = class_of(code);
        const size_t end = at + static_cast<size_t>(bytes);
        if (now == last && now > 0) parts.back().end = end;
        if (now != last && now > 0) parts.push_back({at, end, true});
        last = now;
      });
      return parts;
    });
  };
}

PreTokenizer sequence(const Description& d) {
  std::vector<PreTokenizer> stages;
  for (const auto& stage : d.items("pretokenizers")) stages.push_back(pre_tokenizer_from(stage));
  return in_turn(std::move(stages));
}

using Maker = PreTokenizer (*)(const Description&);

const std::map<std::string, Maker>& makers() {
  static const std::map<std::string, Maker> table = {
      {"BertPreTokenizer",
       [](const Description&) {
         return in_turn({by_characters(is_white_space, SplitBehavior::removed),
                         by_characters(is_punctuation, SplitBehavior::isolated)});
       }},
      {"ByteLevel", byte_level},
      {"CharDelimiterSplit",
       [](const Description& d) {
         return by_pattern(Pattern::literal(d.text("delimiter")), SplitBehavior::removed);
       }},
      {"Digits",
       [](const Description& d) {
         return by_characters(is_numeric, d.flag("individual_digits", false)
                                              ? SplitBehavior::isolated
                                              : SplitBehavior::contiguous);
       }},
      {"Metaspace", metaspace},
      {"Punctuation",
       [](const Description& d) {
         return by_characters(is_punctuation, behavior_of(d, "Isolated"));
       }},
      {"Sequence", sequence},
      {"Split",
       [](const Description& d) {
         return by_pattern(d.pattern(), behavior_of(d, "Isolated"), d.flag("invert", false));
       }},
      {"Whitespace", [](const Description&) { return by_classes(); }},
      {"WhitespaceSplit",
       [](const Description&) { return by_characters(is_white_space, SplitBehavior::removed); }},
  };
  return table;
}

}  // namespace

PreTokenizer pre_tokenizer_from(const Description& description) {
  std::vector<std::string> names;
  for (const auto& [name, maker] : makers()) names.push_back(name);
  return makers().at(description.type(names))(description);
}

}  // namespace booster::text
