#include "core/text/unicode/unicode.h"

#include "core/text/unicode/unicode_differences.h"
#include "platform/error.h"

#include <cctype>
#include <cstdlib>
#include <memory>
#include <utf8proc.h>

namespace booster::text {
namespace {

constexpr char32_t replacement = 0xFFFD;

utf8proc_category_t category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

bool is_continuation(std::string_view text, size_t at, unsigned low = 0x80, unsigned high = 0xBF) {
  if (at >= text.size()) return false;
  const auto byte = static_cast<unsigned char>(text[at]);
  return byte >= low && byte <= high;
}

// Returns how many bytes of a well-formed sequence start at text[at], and whether it is complete
// (Unicode 15, table 3-7).
std::pair<int, bool> sequence_at(std::string_view text, size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  const int bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (!is_continuation(text, at + 1, low, high)) return {1, false};
  for (int i = 2; i < bytes; ++i)
    if (!is_continuation(text, at + static_cast<size_t>(i))) return {i, false};
  return {bytes, true};
}

utf8proc_option_t options_of(NormalForm form) {
  int options = UTF8PROC_STABLE;
  options |=
      form == NormalForm::nfc || form == NormalForm::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::nfkc || form == NormalForm::nfkd) options |= UTF8PROC_COMPAT;
  return static_cast<utf8proc_option_t>(options);
}

bool is_unknown_mark(char32_t code) {
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class != 0 &&
         is_in(not_mark(), code);
}

void add_map(std::string& result, std::string_view text, NormalForm form) {
  utf8proc_uint8_t* mapped = nullptr;
  const auto bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &mapped, options_of(form));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (bytes < 0) fail_data("normalised: {}", utf8proc_errmsg(bytes));
  result.append(reinterpret_cast<const char*>(mapped), static_cast<size_t>(bytes));
}

// Marks that tokenizers' tables do not know neither move nor join others.
void add_mapped(std::string& result, std::string_view text, NormalForm form) {
  size_t done = 0;
  for_each_character(text, [&](char32_t code, size_t at, int bytes) {
    if (!is_unknown_mark(code)) return;
    add_map(result, text.substr(done, at - done), form);
    done = at + static_cast<size_t>(bytes);
    result += text.substr(at, done - at);
  });
  if (done < text.size()) add_map(result, text.substr(done), form);
}

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

// Returns how many bytes of ASCII start the text, without the last one if a character follows that
// may join it.
size_t ascii_without_follower(std::string_view text) {
  size_t count = 0;
  while (count < text.size() && is_ascii(text[count])) ++count;
  return count > 0 && count < text.size() ? count - 1 : count;
}

// Returns how many bytes to the next character of ASCII, after a first one that may be ASCII.
size_t foreign_with_leader(std::string_view text) {
  size_t count = text.empty() ? 0 : 1;
  while (count < text.size() && !is_ascii(text[count])) ++count;
  return count;
}

}  // namespace

Character character_at(std::string_view text, size_t at) {
  if (at >= text.size()) return {};
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {((lead & 0x1F) << 6) | (byte(1) & 0x3Fu), 2};
  if (lead < 0xF0) return {((lead & 0x0F) << 12) | ((byte(1) & 0x3Fu) << 6) | (byte(2) & 0x3Fu), 3};
  return {((lead & 0x07) << 18) | ((byte(1) & 0x3Fu) << 12) | ((byte(2) & 0x3Fu) << 6) |
              (byte(3) & 0x3Fu),
          4};
}

void append(std::string& text, char32_t code) {
  if (code < 0x80) return text.push_back(static_cast<char>(code));
  utf8proc_uint8_t bytes[4];
  const auto count = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
}

std::string valid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const auto [bytes, whole] = sequence_at(text, at);
    if (whole)
      result.append(text.substr(at, static_cast<size_t>(bytes)));
    else
      append(result, replacement);
    at += static_cast<size_t>(bytes);
  }
  return result;
}

bool is_white_space(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 || code == 0xA0 ||
         code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 ||
         code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_punctuation(char32_t code) {
  if (code < 0x80) return code > 0x20 && code < 0x7F && !std::isalnum(static_cast<int>(code));
  const auto kind = category(code);
  const bool punctuation = kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
  return punctuation ? !is_in(not_punctuation(), code) : is_in(also_punctuation(), code);
}

bool is_numeric(char32_t code) {
  const auto kind = category(code);
  return (kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO) ||
         is_in(also_number(), code);
}

bool is_other(char32_t code) {
  if (code < 0x80) return code < 0x20 || code == 0x7F;
  const auto kind = category(code);
  return (kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF ||
          kind == UTF8PROC_CATEGORY_CO) &&
         !is_in(not_other(), code);
}

bool is_mark(char32_t code) {
  const auto kind = category(code);
  const bool mark = kind >= UTF8PROC_CATEGORY_MN && kind <= UTF8PROC_CATEGORY_ME;
  return mark ? !is_in(not_mark(), code) : is_in(also_mark(), code);
}

bool is_mark_nonspacing(char32_t code) {
  if (code < 0x80) return false;
  return category(code) == UTF8PROC_CATEGORY_MN ? !is_in(not_nonspacing(), code)
                                                : is_in(also_nonspacing(), code);
}

bool is_word(char32_t code) {
  if (code < 0x80) return std::isalnum(static_cast<int>(code)) || code == '_';
  const auto kind = category(code);
  return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_ND) ||
         kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_PC || code == 0x200C ||
         code == 0x200D || (code >= 0x24B6 && is_in(also_word(), code));
}

std::string normalised(std::string_view text, NormalForm form) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t plain = ascii_without_follower(text.substr(at));
    result += text.substr(at, plain);
    at += plain;
    const size_t foreign = foreign_with_leader(text.substr(at));
    add_mapped(result, text.substr(at, foreign), form);
    at += foreign;
  }
  return result;
}

std::string lowered(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for_each_character(text, [&](char32_t code, size_t, int) {
    if (code < 0x80)
      return result.push_back(static_cast<char>(std::tolower(static_cast<int>(code))));
    append(result, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
    // The only character whose lower case is two characters (Unicode's SpecialCasing.txt).
    if (code == 0x130) append(result, 0x307);
  });
  return result;
}

}  // namespace booster::text
