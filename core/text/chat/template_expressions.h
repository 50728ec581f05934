// Reads the words and the expressions of a chat template; its blocks are in template_parser.cpp.
// For one thread.
#pragma once

#include "core/text/chat/template_filters.h"
#include "core/text/chat/template_syntax.h"
#include "platform/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace booster::text {

constexpr int deepest_nesting = 200;  // of expressions and blocks

class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view source) : tokens_(template_tokens(source)) {}

 protected:
  // Reads a whole expression; the second form ends before "if", as a loop's list does.
  Expression expression();
  Expression either();

  const TemplateToken& here() const { return tokens_[at_]; }
  const TemplateToken& peek(size_t ahead) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  [[noreturn]] void refuse(const std::string& problem) const {
    fail_data("line {}: {}", here().line, problem);
  }
  [[noreturn]] void not_understood() const {
    refuse(here().text.empty() ? "an expression breaks off"
                               : fmt::format("'{}' is not understood here", here().text));
  }
  TemplateToken take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool is(TemplateWord word, std::string_view text) const {
    return here().word == word && here().text == text;
  }
  bool take_if(std::string_view sign) {
    const bool found = is(TemplateWord::sign, sign);
    if (found) ++at_;
    return found;
  }
  bool take_name_if(std::string_view name) {
    const bool found = is(TemplateWord::name, name);
    if (found) ++at_;
    return found;
  }
  void expect(std::string_view sign) {
    if (!take_if(sign)) refuse(fmt::format("got '{}', want '{}'", here().text, sign));
  }
  std::string name() {
    if (here().word != TemplateWord::name) not_understood();
    return take().text;
  }

  class Depth {
   public:
    explicit Depth(ExpressionParser& parser) : parser_(parser) {
      if (++parser_.depth_ > deepest_nesting) parser_.refuse("nested too deeply");
    }
    ~Depth() { --parser_.depth_; }

   private:
    ExpressionParser& parser_;
  };

  std::vector<std::string> functions_ = template_function_names();  // and macros so far
  size_t at_ = 0;

 private:
  Expression made(ExpressionKind kind, std::vector<Expression> parts, std::string name = {}) const;
  Expression both();
  Expression opposite();
  Expression comparison();
  Expression sum();
  Expression joined();
  Expression product();
  Expression filtered();
  std::string known_filter();
  Expression tested(Expression value);
  Expression signed_value();
  Expression after_dot(Expression value);
  Expression after_bracket(Expression value);
  // A call of a function by name, or of a method of a value.
  Expression called(Expression value);
  void check_known(const std::string& name, const char* what,
                   const std::vector<std::string>& known) const;
  void arguments(Expression& call);
  Expression literal(TemplateValue value) const;
  Expression primary();
  Expression named_value();
  Expression in_parentheses();
  Expression sequence(std::string_view end, ExpressionKind kind);

  // Operators of one rank, from the left; `next` reads what binds more tightly.
  template <size_t n>
  Expression chain(const std::array<std::string_view, n>& signs,
                   Expression (ExpressionParser::*next)()) {
    Expression result = (this->*next)();
    while (here().word == TemplateWord::sign &&
           std::ranges::find(signs, here().text) != signs.end()) {
      const std::string sign = take().text;
      result = made(ExpressionKind::binary, {std::move(result), (this->*next)()}, sign);
    }
    return result;
  }

  std::vector<TemplateToken> tokens_;
  int depth_ = 0;
};

}  // namespace booster::text
