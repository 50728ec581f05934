#include "core/text/unicode/byte_level.h"

#include "core/text/unicode/unicode.h"

#include <array>

namespace booster::text {
namespace {

// Printable bytes of Latin-1 stand for themselves; the others are 256, 257, ... in their order.
struct ByteTable {
  std::array<std::string, 256> character;
  std::array<int, 512> byte;  // by code of the character; -1: stands for none

  ByteTable() {
    byte.fill(-1);
    char32_t next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b != 0xAD);
      const char32_t code = printable ? static_cast<char32_t>(b) : next++;
      append(character[static_cast<size_t>(b)], code);
      byte[code] = b;
    }
  }
};

const ByteTable& table() {
  static const ByteTable table;
  return table;
}

}  // namespace

std::string characters_of_bytes(std::string_view text) {
  std::string result;
  result.reserve(text.size() + text.size() / 4);
  for (const char c : text) result += table().character[static_cast<unsigned char>(c)];
  return result;
}

std::optional<std::string> bytes_of_characters(std::string_view text) {
  std::string result;
  bool all = true;
  for_each_character(text, [&](char32_t code, size_t, int) {
    const int byte = code < 512 ? table().byte[code] : -1;
    all = all && byte >= 0;
    result += static_cast<char>(byte);
  });
  if (!all) return std::nullopt;
  return result;
}

}  // namespace booster::text
