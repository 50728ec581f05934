// Numbers in text: a dot is the decimal point, whatever the process's locale. (With "de_DE.UTF-8"
// std::strtod and its relatives expect a comma.)
#pragma once

#include <charconv>
#include <locale.h>
#include <optional>
#include <string_view>

namespace booster {

// Returns the number that the whole text forms: as C++ writes one, or inf or nan. Returns nothing
// for other text and for numbers outside the range of a double.
inline std::optional<double> decimal_number(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

// Makes C's functions read and write numbers with a dot on this thread while it lives, for
// libraries that call them.
class DotDecimals {
 public:
  DotDecimals() : before_(::uselocale(standard())) {}
  ~DotDecimals() { ::uselocale(before_); }
  DotDecimals(const DotDecimals&) = delete;
  DotDecimals& operator=(const DotDecimals&) = delete;

 private:
  static locale_t standard() {
    static const locale_t locale = ::newlocale(LC_ALL_MASK, "C", nullptr);
    return locale;
  }
  locale_t before_;
};

}  // namespace booster
