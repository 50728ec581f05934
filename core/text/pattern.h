// Regular expressions over UTF-8 text in the dialect of Hugging Face's tokenizers (Oniguruma), by
// PCRE2 with its just-in-time compiler. A Pattern is immutable and thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace booster::text {

class Pattern {
 public:
  // Throws an error of kind data for an expression that PCRE2 cannot compile.
  static Pattern regular_expression(const std::string& expression);
  // Matches exactly `literal`.
  static Pattern literal(const std::string& literal);

  // Calls f(start, end) for each match, from left to right; matches may be empty. The text is
  // valid UTF-8.
  void for_each_match(std::string_view text,
                      const std::function<void(size_t start, size_t end)>& f) const;
  std::string replaced(std::string_view text, std::string_view replacement) const;

 private:
  struct Code;
  explicit Pattern(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const Code> code_;
};

// Returns the expression in PCRE2's dialect: \s, \d, \w and \h as Oniguruma defines them for
// Unicode text.
std::string pcre_from_oniguruma(std::string_view expression);

}  // namespace booster::text
