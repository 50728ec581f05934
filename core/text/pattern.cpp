#include "core/text/pattern.h"

#include "core/text/unicode/unicode.h"
#include "core/text/unicode/unicode_differences.h"
#include "platform/error.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace booster::text {
namespace {

// PCRE2 counts U+180E as white space and Oniguruma does not, so classes are written out.
constexpr std::string_view white_space =
    R"(\x09-\x0D\x20\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view word = R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc})";

// Returns what stands for \s, \d, \w or \h inside of a class; empty for other letters.
std::string members_of(char letter) {
  switch (letter) {
    case 's': return std::string(white_space);
    case 'd': return R"(\p{Nd})";
    case 'w': return std::string(word) + members_of_class(also_word());
    case 'h': return "0-9a-fA-F";
    default: return {};
  }
}

// The same for \p{L} and \p{N} at the start of `rest`; the characters that joined Unicode lately
// are not in every version of PCRE2.
std::string members_of_property(std::string_view rest) {
  if (rest.starts_with("\\p{L}")) return "\\p{L}" + members_of_class(also_letter());
  if (rest.starts_with("\\p{N}")) return "\\p{N}" + members_of_class(also_number());
  return {};
}

bool negates(char letter) {
  return letter == 'S' || letter == 'D' || letter == 'W' || letter == 'H';
}

// A negated class within a class: [^\S\n] has no shorter form in PCRE2 without UCP, which would
// bring its own white space. `expression` names the offender.
std::string_view negated_members(char letter, std::string_view expression) {
  if (letter == 'D') return R"(\P{Nd})";
  if (letter != 'S')
    fail_data("tokenizer: regular expression '{}' has \\{} in a class; want \\S or \\D there",
              expression, letter);
  return R"(\x00-\x08\x0E-\x1F\x21-\x{84}\x{86}-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF})"
         R"(\x{200B}-\x{2027}\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF})"
         R"(\x{3001}-\x{10FFFF})";
}

std::string problem_of(int error) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

struct MatchData {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  MatchData() = default;
  MatchData(const MatchData&) = delete;
  MatchData& operator=(const MatchData&) = delete;
  ~MatchData() { pcre2_match_data_free(data); }
};

}  // namespace

struct Pattern::Code {
  explicit Code(const std::string& expression, const std::string& shown, uint32_t options) {
    int error = 0;
    PCRE2_SIZE offset = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                         PCRE2_UTF | options, &error, &offset, nullptr);
    if (!code)
      fail_data("tokenizer: regular expression '{}' cannot be compiled: {}", shown,
                problem_of(error));
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // matching is slower where this fails
  }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }

  pcre2_code* code = nullptr;
};

Pattern Pattern::regular_expression(const std::string& expression) {
  return Pattern(std::make_shared<Code>(pcre_from_oniguruma(expression), expression, 0));
}

Pattern Pattern::literal(const std::string& literal) {
  return Pattern(std::make_shared<Code>(literal, literal, PCRE2_LITERAL));
}

void Pattern::for_each_match(std::string_view text,
                             const std::function<void(size_t, size_t)>& f) const {
  thread_local const MatchData match;
  PCRE2_SIZE* found = pcre2_get_ovector_pointer(match.data);
  size_t from = 0;
  size_t last_end = std::string_view::npos;  // of the match before
  while (from <= text.size()) {
    const int count = pcre2_match(code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()),
                                  text.size(), from, PCRE2_NO_UTF_CHECK, match.data, nullptr);
    if (count == PCRE2_ERROR_NOMATCH) return;
    if (count < 0) fail_data("tokenizer: matching failed: {}", problem_of(count));
    const size_t start = found[0], end = found[1];
    if (start < end || end != last_end) f(start, end);
    last_end = end;
    // After an empty match the next one starts a character later.
    from =
        start < end ? end : end + static_cast<size_t>(std::max(1, character_at(text, end).bytes));
  }
}

std::string Pattern::replaced(std::string_view text, std::string_view replacement) const {
  std::string result;
  size_t done = 0;
  for_each_match(text, [&](size_t start, size_t end) {
    result.append(text.substr(done, start - done)).append(replacement);
    done = end;
  });
  return result.append(text.substr(done));
}

std::string pcre_from_oniguruma(std::string_view expression) {
  std::string result;
  bool in_class = false;
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    if (c != '\\' || i + 1 == expression.size()) {
      result += c;
      continue;
    }
    if (const std::string property = members_of_property(expression.substr(i)); !property.empty()) {
      result.append(in_class ? property : "[" + property + "]");
      i += std::string_view("p{L}").size();
      continue;
    }
    const char letter = expression[++i];
    const bool negated = negates(letter);
    const std::string members =
        members_of(negated ? static_cast<char>(letter - 'A' + 'a') : letter);
    if (members.empty())
      result.append(1, '\\').append(1, letter);
    else if (in_class)
      result.append(negated ? negated_members(letter, expression) : members);
    else
      result.append(negated ? "[^" : "[").append(members).append("]");
  }
  return result;
}

}  // namespace booster::text
