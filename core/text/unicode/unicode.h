// Characters of UTF-8 text, and the classes of characters as tokenizers has them
// (unicode_differences.h). Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace booster::text {

struct Character {
  char32_t code = 0;
  int bytes = 0;  // of its UTF-8 form; 0 at the end of the text
};

// Returns the character that starts at text[at]. The text is valid UTF-8 (see valid_utf8).
Character character_at(std::string_view text, size_t at);
void append(std::string& text, char32_t code);

// Returns `text` with U+FFFD in place of every byte sequence that is not UTF-8, as Python's
// bytes.decode(errors="replace") does.
std::string valid_utf8(std::string_view text);

// Calls f(code, offset, bytes) for each character.
template <class F>
void for_each_character(std::string_view text, F&& f) {
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    f(c.code, at, c.bytes);
    at += static_cast<size_t>(c.bytes);
  }
}

// Returns the characters for which keep(code) holds.
template <class Keep>
std::string filtered(std::string_view text, Keep&& keep) {
  std::string result;
  result.reserve(text.size());
  for_each_character(text, [&](char32_t code, size_t at, int bytes) {
    if (keep(code)) result.append(text.substr(at, static_cast<size_t>(bytes)));
  });
  return result;
}

bool is_white_space(char32_t code);  // property White_Space
bool is_punctuation(char32_t code);  // ASCII punctuation and symbols, and categories P*
bool is_numeric(char32_t code);      // categories N*
bool is_other(char32_t code);        // Cc, Cf, Co: control, format, private use
bool is_mark(char32_t code);         // categories M*
bool is_mark_nonspacing(char32_t code);
bool is_word(char32_t code);  // \w: letters, marks, decimal digits, connectors, joiners

enum class NormalForm { nfc, nfd, nfkc, nfkd };
std::string normalised(std::string_view text, NormalForm form);
std::string lowered(std::string_view text);

}  // namespace booster::text
