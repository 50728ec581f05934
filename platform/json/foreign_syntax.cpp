#include "platform/json/foreign_syntax.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace booster {

namespace {

bool is_word_letter(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) || letter == '_';
}

// Returns the word around an offset, or "".
std::string_view word_at(std::string_view text, size_t offset, size_t& begin) {
  begin = std::min(offset, text.size());
  while (begin > 0 && is_word_letter(text[begin - 1])) --begin;
  size_t end = begin;
  while (end < text.size() && is_word_letter(text[end])) ++end;
  return text.substr(begin, end - begin);
}

// Returns the first letter at or after an offset that is not white space; 0 if there is none.
char next_letter(std::string_view text, size_t offset) {
  const size_t at = text.find_first_not_of(json_white_space, offset);
  return at == text.npos ? '\0' : text[at];
}

std::string_view line_at(std::string_view text, size_t offset) {
  return text.substr(offset, std::min(text.find('\n', offset), text.size()) - offset);
}

// Returns the first line that is neither blank nor a comment.
std::string_view first_line(std::string_view text) {
  size_t begin = text.find_first_not_of(json_white_space);
  while (begin != text.npos && text[begin] == '#') {
    const size_t end = text.find('\n', begin);
    begin = end == text.npos ? end : text.find_first_not_of(json_white_space, end);
  }
  return begin == text.npos ? "" : line_at(text, begin);
}

bool is_yaml(std::string_view line) {
  if (line.starts_with("---") || line.starts_with("%YAML") || line.starts_with("- ")) return true;
  size_t end = 0;
  while (end < line.size() && (is_word_letter(line[end]) || line[end] == '-')) ++end;
  return end > 0 && end < line.size() && line[end] == ':';
}

// "[section]", with values below it, or "key = value"
bool is_toml(std::string_view text, std::string_view line) {
  size_t end = line.starts_with("[") ? 1 : 0;
  const bool is_section = end == 1;
  while (end < line.size() && (is_word_letter(line[end]) || line[end] == '.')) ++end;
  if (is_section)
    return end > 1 && end < line.size() && line[end] == ']' && text.find('=') != text.npos &&
           std::isalpha(static_cast<unsigned char>(line[1])) &&
           line.find_first_not_of(" \t\r", end + 1) == line.npos;
  return end > 0 && next_letter(line, end) == '=';
}

ForeignSyntax foreign_word(std::string_view text, size_t offset) {
  size_t begin = 0;
  const std::string_view word = word_at(text, offset, begin);
  const auto says = [&](std::string problem) { return ForeignSyntax{begin, std::move(problem)}; };
  if (word == "True" || word == "False")
    return says(fmt::format("not JSON; got {}, want {}", word, word == "True" ? "true" : "false"));
  if (word == "None" || word == "nil" || word == "undefined")
    return says(fmt::format("not JSON; got {}, want null", word));
  const bool is_key = !word.empty() && !std::isdigit(static_cast<unsigned char>(word[0])) &&
                      word.size() <= 60 && next_letter(text, begin + word.size()) == ':';
  return is_key ? says(fmt::format("a key without quotes; want \"{}\"", word)) : ForeignSyntax{};
}

bool closes_after_comma(std::string_view text, size_t offset) {
  if (offset >= text.size() || (text[offset] != '}' && text[offset] != ']')) return false;
  const size_t before = text.find_last_not_of(json_white_space, offset == 0 ? 0 : offset - 1);
  return before != text.npos && text[before] == ',';
}

}  // namespace

ForeignSyntax foreign_syntax(std::string_view text, size_t offset) {
  offset = std::min(offset, text.size());
  const std::string_view line = first_line(text), rest = text.substr(offset);
  const size_t first = line.empty() ? 0 : static_cast<size_t>(line.data() - text.data());
  if (is_yaml(line)) return {first, "not JSON but YAML; want a JSON object { ... }"};
  if (is_toml(text, line)) return {first, "not JSON but TOML; want a JSON object { ... }"};
  if (rest.starts_with("//") || rest.starts_with("/*") || rest.starts_with("#"))
    return {offset, "a comment; want none: JSON has no comments"};
  if (rest.starts_with("'")) return {offset, "a single quote; want double quotes"};
  if (closes_after_comma(text, offset))
    return {text.find_last_of(',', offset),
            fmt::format("a comma before {}; want none after the last item", text[offset])};
  return foreign_word(text, offset);
}

std::string foreign_encoding(std::string_view text) {
  using namespace std::string_view_literals;
  const auto zero_at = [&](size_t i) { return i < text.size() && text[i] == '\0'; };
  if (text.starts_with("\xFF\xFE\0\0"sv) || text.starts_with("\0\0\xFE\xFF"sv))
    return "the text is UTF-32; want UTF-8";
  const bool marked = text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF");
  if (marked || (text.size() > 1 && zero_at(0) != zero_at(1)))
    return "the text is UTF-16; want UTF-8";
  if (text.starts_with("\xEF\xBB\xBF")) return "begins with a byte order mark; want plain UTF-8";
  return "";
}

}  // namespace booster
