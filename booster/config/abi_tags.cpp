#include "booster/config/abi_tags.h"

#include "platform/program.h"

#include <fstream>
#include <iterator>
#include <string_view>

namespace booster {

namespace {

constexpr size_t longest = 100;

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the text up to its terminating zero; empty if it is not a tag but resembles one.
std::string_view tag_at(std::string_view text) {
  const size_t end = text.substr(0, longest).find('\0');
  if (end == text.npos) return {};
  const std::string_view tag = text.substr(0, end);
  for (const char letter : tag)
    if (letter < ' ' || letter > '~') return {};
  return tag;
}

}  // namespace

std::set<std::string> abi_tags(const std::filesystem::path& path) {
  const std::string_view full = abi_tag, begin = full.substr(0, full.find(' ') + 1);
  const std::string text = contents(path);
  std::set<std::string> tags;
  for (size_t at = text.find(begin); at != text.npos; at = text.find(begin, at)) {
    at += begin.size();
    if (const std::string_view tag = tag_at(std::string_view(text).substr(at)); !tag.empty())
      tags.emplace(tag);
  }
  return tags;
}

}  // namespace booster
