#include "core/text/chat/template_syntax.h"
#include "platform/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace booster::text {

namespace {

constexpr std::string_view blank = " \t\n\r\f\v";

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Line ends as \n, without one at the end, as Jinja reads a template.
std::string normal_lines(std::string_view source) {
  std::string lines;
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    lines += source[i] == '\r' ? '\n' : source[i];
  }
  if (lines.ends_with('\n')) lines.pop_back();
  return lines;
}

std::string utf8_of(uint32_t code) {
  std::string bytes;
  if (code < 0x80) return {static_cast<char>(code)};
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr std::array leads = {0, 0xC0, 0xE0, 0xF0};
  bytes +=
      static_cast<char>(leads[static_cast<size_t>(more)] | static_cast<int>(code >> (6 * more)));
  for (int i = more - 1; i >= 0; --i) bytes += static_cast<char>(0x80 | ((code >> (6 * i)) & 0x3F));
  return bytes;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normal_lines(source)) {}

  std::vector<TemplateToken> tokens() {
    while (at_ < source_.size()) {
      outside();
      if (at_ < source_.size()) inside();
    }
    add(TemplateWord::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    fail_data("line {}: {}", line_, problem);
  }
  void add(TemplateWord word, std::string text) {
    tokens_.push_back({word, std::move(text), line_});
  }
  // Moves on by `count` bytes.
  void skip(size_t count) {
    const auto from = source_.begin() + static_cast<std::ptrdiff_t>(at_);
    line_ += static_cast<int>(std::count(from, from + static_cast<std::ptrdiff_t>(count), '\n'));
    at_ += count;
  }
  char sign(size_t place) const { return place < source_.size() ? source_[place] : '\0'; }
  bool is_at(std::string_view text) const { return source_.compare(at_, text.size(), text) == 0; }

  // Reads text up to the next block.
  void outside() {
    size_t next = at_;
    while (next < source_.size() &&
           !(source_[next] == '{' &&
             std::string_view("{%#").find(sign(next + 1)) != std::string_view::npos))
      ++next;
    std::string text = source_.substr(at_, next - at_);
    if (next < source_.size()) trim_before(text, sign(next + 1), sign(next + 2));
    if (!text.empty()) add(TemplateWord::text, text);
    skip(next - at_);
  }

  void trim_before(std::string& text, char kind, char mark) const {
    if (mark == '-') {
      text.resize(text.find_last_not_of(blank) + 1);
    } else if (kind != '{' && mark != '+') {
      const size_t line = text.rfind('\n') + 1;
      const bool from_line_start = line > 0 || line_start_;
      if (from_line_start && text.find_first_not_of(blank, line) == std::string::npos)
        text.resize(line);
    }
  }

  void inside() {
    const char kind = sign(at_ + 1);
    skip(2);
    if (sign(at_) == '-' || sign(at_) == '+') skip(1);
    if (kind == '#') return comment();
    const bool is_block = kind == '%';
    add(is_block ? TemplateWord::block_begin : TemplateWord::printed_begin, "");
    const std::string_view end = is_block ? "%}" : "}}";
    brackets_ = 0;
    while (true) {
      skip(std::min(source_.find_first_not_of(blank, at_), source_.size()) - at_);
      if (at_ == source_.size()) refuse("a block without its end");
      const bool marked =
          (sign(at_) == '-' || sign(at_) == '+') && source_.compare(at_ + 1, 2, end) == 0;
      if (brackets_ == 0 && (marked || is_at(end))) break;
      word();
    }
    add(is_block ? TemplateWord::block_end : TemplateWord::printed_end, "");
    finish(end, is_block);
  }

  void comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) refuse("a comment without its end");
    const char mark = sign(end - 1);
    skip(end - at_ - (end > at_ && (mark == '-' || mark == '+') ? 1 : 0));
    finish("#}", true);
  }

  // Reads a block's end, and the white space after it that goes.
  void finish(std::string_view end, bool trims_line) {
    const char mark = is_at(end) ? '\0' : sign(at_);
    skip(end.size() + (mark == '\0' ? 0 : 1));
    const size_t before = at_;
    if (mark == '-')
      skip(std::min(source_.find_first_not_of(blank, at_), source_.size()) - at_);
    else if (trims_line && mark != '+' && sign(at_) == '\n')
      skip(1);
    line_start_ = at_ > before && source_[at_ - 1] == '\n';
  }

  void word() {
    const char c = source_[at_];
    if (begins_name(c)) return name();
    if (is_digit(c)) return number();
    if (c == '"' || c == '\'') return string(c);
    static constexpr std::string_view pairs[] = {"==", "!=", "<=", ">=", "//"};
    for (const auto pair : pairs)
      if (is_at(pair)) return take_sign(2);
    if (std::string_view("+-*/%~<>=()[]{},:.|").find(c) == std::string_view::npos)
      refuse(fmt::format("the character '{}' is not understood", c));
    if (std::string_view("([{").find(c) != std::string_view::npos) ++brackets_;
    if (std::string_view(")]}").find(c) != std::string_view::npos && --brackets_ < 0)
      refuse("a bracket that closes nothing");
    take_sign(1);
  }
  void take_sign(size_t size) {
    add(TemplateWord::sign, source_.substr(at_, size));
    skip(size);
  }
  void name() {
    size_t end = at_;
    while (begins_name(sign(end)) || is_digit(sign(end))) ++end;
    add(TemplateWord::name, source_.substr(at_, end - at_));
    skip(end - at_);
  }
  void number() {
    size_t end = at_;
    while (is_digit(sign(end))) ++end;
    const bool whole = !(sign(end) == '.' && is_digit(sign(end + 1)));
    if (!whole)
      for (++end; is_digit(sign(end));) ++end;
    if (end - at_ > 18) refuse("a number with more than 18 digits");
    add(whole ? TemplateWord::integer : TemplateWord::number, source_.substr(at_, end - at_));
    skip(end - at_);
  }

  void string(char quote) {
    std::string text;
    size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != quote; ++i) {
      if (source_[i] == '\\' && i + 1 < source_.size())
        i = escape(i + 1, text);
      else
        text += source_[i];
    }
    if (i == source_.size()) refuse("a text without its end");
    add(TemplateWord::string, text);
    skip(i + 1 - at_);
  }

  // Adds the character that an escape stands for; returns the escape's last place.
  size_t escape(size_t at, std::string& text) const {
    static constexpr std::string_view names = "ntr\\'\"0bfva", signs("\n\t\r\\'\"\0\b\f\v\a", 11);
    const char c = source_[at];
    if (c == '\n') return at;
    if (const size_t known = names.find(c); known != std::string_view::npos) {
      text += signs[known];
      return at;
    }
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    const std::string number = source_.substr(at + 1, digits);
    const bool hex = std::ranges::all_of(
        number, [](char d) { return std::isxdigit(static_cast<unsigned char>(d)) != 0; });
    if (digits == 0 || number.size() < digits || !hex)
      refuse(fmt::format("the escape \\{} is not understood", c));
    const auto code = static_cast<uint32_t>(std::stoul(number, nullptr, 16));
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) refuse("an escape of no character");
    text += utf8_of(code);
    return at + digits;
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1, brackets_ = 0;
  bool line_start_ = true;  // the text after the last block begins a line
  std::vector<TemplateToken> tokens_;
};

}  // namespace

std::vector<TemplateToken> template_tokens(std::string_view source) {
  return Lexer(source).tokens();
}

}  // namespace booster::text
