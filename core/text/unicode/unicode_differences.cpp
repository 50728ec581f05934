#include "core/text/unicode/unicode_differences.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace booster::text {

#define TABLE(name, ...)                               \
  std::span<const CodeRange> name() {                  \
    static constexpr CodeRange rows[] = {__VA_ARGS__}; \
    return rows;                                       \
  }
#include "core/text/unicode/unicode_differences.def"
#undef TABLE

bool is_in(std::span<const CodeRange> table, char32_t code) {
  const auto after = std::upper_bound(table.begin(), table.end(), code,
                                      [](char32_t c, const CodeRange& r) { return c < r.first; });
  return after != table.begin() && code <= std::prev(after)->last;
}

std::string members_of_class(std::span<const CodeRange> table) {
  std::string result;
  for (const CodeRange& range : table)
    result += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", static_cast<uint32_t>(range.first),
                          static_cast<uint32_t>(range.last));
  return result;
}

}  // namespace booster::text
