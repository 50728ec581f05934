#include "platform/warn.h"

#include <fmt/core.h>

#include <cstdint>

namespace booster {

namespace {

struct Character {
  size_t bytes;   // 1 if it is not UTF-8
  uint32_t code;  // `invalid` if it is not
};
constexpr uint32_t invalid = UINT32_MAX;

// Returns the first character of a text that is not empty.
Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {1, invalid};
  uint32_t code = lead & (0x7FU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return {1, invalid};
    code = (code << 6) | (byte(i) & 0x3FU);
  }
  constexpr uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < smallest[bytes] || code > 0x10FFFF || surrogate) return {1, invalid};
  return {bytes, code};
}

// Returns true for C0 and C1 controls, line and paragraph separators, direction marks and
// zero-width characters.
bool steers(uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x200B && code <= 0x200F) ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2060 && code <= 0x206F) ||
         code == 0xFEFF || code == invalid;
}

std::string written_out(std::string_view bytes) {
  if (bytes == "\n") return "\\n";
  if (bytes == "\r") return "\\r";
  if (bytes == "\t") return "\\t";
  std::string text;
  for (const char c : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

// Returns the bytes of a colour (ESC [ digits and ; m) at the beginning; 0 if there is none.
size_t colour_bytes(std::string_view text) {
  if (!text.starts_with("\x1b[")) return 0;
  const size_t end = text.find_first_not_of("0123456789;:", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

std::string made_fit(std::string_view text, bool keeps_layout) {
  std::string result;
  while (!text.empty()) {
    const Character character = first_character(text);
    size_t kept = steers(character.code) ? 0 : character.bytes;
    if (keeps_layout && kept == 0) kept = text[0] == '\t' ? 1 : colour_bytes(text);
    result += kept ? std::string(text.substr(0, kept))
                   : written_out(text.substr(0, character.bytes));
    text.remove_prefix(kept ? kept : character.bytes);
  }
  return result;
}

}  // namespace

std::string terminal_text(std::string_view text) { return made_fit(text, false); }
std::string terminal_line(std::string_view line) { return made_fit(line, true); }

std::string terminal_lines(std::string_view text) {
  std::string lines;
  for (size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1))
    lines += terminal_text(text.substr(0, end)) + '\n';
  return lines + terminal_text(text);
}

}  // namespace booster
