// GPT-2's map between bytes and printable characters: byte-level BPE writes its vocabulary in them.
// Source: encoder.py of https://github.com/openai/gpt-2.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace booster::text {

// Returns each byte of `text` as its character.
std::string characters_of_bytes(std::string_view text);
// Returns the bytes that the characters stand for, or nothing if one of them stands for no byte.
std::optional<std::string> bytes_of_characters(std::string_view text);

}  // namespace booster::text
