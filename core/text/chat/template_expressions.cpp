#include "core/text/chat/template_expressions.h"

#include "platform/decimal.h"

namespace booster::text {

Expression ExpressionParser::made(ExpressionKind kind, std::vector<Expression> parts,
                                  std::string name) const {
  return {.kind = kind, .line = here().line, .name = std::move(name), .parts = std::move(parts)};
}

Expression ExpressionParser::expression() {
  const Depth depth(*this);
  Expression result = either();
  while (take_name_if("if")) {
    std::vector<Expression> parts = {std::move(result), either()};
    if (take_name_if("else")) parts.push_back(expression());
    result = made(ExpressionKind::conditional, std::move(parts));
  }
  return result;
}

Expression ExpressionParser::either() {
  Expression result = both();
  while (take_name_if("or")) result = made(ExpressionKind::either, {std::move(result), both()});
  return result;
}

Expression ExpressionParser::both() {
  Expression result = opposite();
  while (take_name_if("and")) result = made(ExpressionKind::both, {std::move(result), opposite()});
  return result;
}

Expression ExpressionParser::opposite() {
  const Depth depth(*this);
  if (take_name_if("not")) return made(ExpressionKind::opposite, {opposite()});
  return comparison();
}

Expression ExpressionParser::comparison() {
  Expression result = sum();
  static constexpr std::array<std::string_view, 6> signs = {"==", "!=", "<", "<=", ">", ">="};
  bool compared = false;
  while (true) {
    const bool absent = is(TemplateWord::name, "not") && peek(1).text == "in";
    if (absent || is(TemplateWord::name, "in")) {
      at_ += absent ? 2 : 1;
      result = made(ExpressionKind::within, {std::move(result), sum()});
      if (absent) result = made(ExpressionKind::opposite, {std::move(result)});
    } else if (here().word == TemplateWord::sign &&
               std::ranges::find(signs, here().text) != signs.end()) {
      const std::string sign = take().text;
      result = made(ExpressionKind::binary, {std::move(result), sum()}, sign);
    } else {
      return result;
    }
    if (compared) refuse("comparisons in a chain are not supported; want 'and' between them");
    compared = true;
  }
}

Expression ExpressionParser::sum() {
  return chain(std::array<std::string_view, 2>{"+", "-"}, &ExpressionParser::joined);
}

Expression ExpressionParser::joined() {
  return chain(std::array<std::string_view, 1>{"~"}, &ExpressionParser::product);
}

Expression ExpressionParser::product() {
  return chain(std::array<std::string_view, 4>{"*", "/", "//", "%"}, &ExpressionParser::filtered);
}

Expression ExpressionParser::filtered() {
  Expression result = signed_value();
  while (true) {
    if (take_if("|")) {
      result = made(ExpressionKind::filter, {std::move(result)}, known_filter());
      if (is(TemplateWord::sign, "(")) arguments(result);
    } else if (take_name_if("is")) {
      result = tested(std::move(result));
    } else {
      return result;
    }
  }
}

std::string ExpressionParser::known_filter() {
  const std::string filter = here().text;
  if (std::ranges::find(template_filter_names(), filter) == template_filter_names().end())
    refuse(fmt::format("the filter '{}' is not supported{}", filter,
                       legal_names(filter, template_filter_names())));
  return name();
}

Expression ExpressionParser::tested(Expression value) {
  const bool absent = take_name_if("not");
  const std::string test = here().text;
  if (std::ranges::find(template_test_names(), test) == template_test_names().end())
    refuse(fmt::format("the test '{}' is not supported{}", test,
                       legal_names(test, template_test_names())));
  Expression result = made(ExpressionKind::test, {std::move(value)}, name());
  if (is(TemplateWord::sign, "("))
    arguments(result);
  else if (here().word == TemplateWord::string || here().word == TemplateWord::integer)
    result.parts.push_back(primary());
  return absent ? made(ExpressionKind::opposite, {std::move(result)}) : result;
}

Expression ExpressionParser::signed_value() {
  const Depth depth(*this);
  if (take_if("-")) return made(ExpressionKind::negative, {signed_value()});
  if (take_if("+")) return signed_value();
  Expression result = primary();
  while (true) {
    if (take_if("."))
      result = after_dot(std::move(result));
    else if (take_if("["))
      result = after_bracket(std::move(result));
    else if (is(TemplateWord::sign, "("))
      result = called(std::move(result));
    else
      return result;
  }
}

Expression ExpressionParser::after_dot(Expression value) {
  Expression key = literal(here().word == TemplateWord::integer
                               ? TemplateValue(static_cast<int64_t>(std::stoll(take().text)))
                               : TemplateValue(name()));
  return made(ExpressionKind::member, {std::move(value), std::move(key)});
}

Expression ExpressionParser::after_bracket(Expression value) {
  std::vector<Expression> parts = {std::move(value)};
  bool is_slice = false;
  while (!is(TemplateWord::sign, "]")) {
    if (is(TemplateWord::sign, ":") || is(TemplateWord::sign, "]"))
      parts.push_back(literal({}));
    else
      parts.push_back(expression());
    if (!take_if(":")) break;
    is_slice = true;
    if (is(TemplateWord::sign, "]")) parts.push_back(literal({}));
  }
  expect("]");
  if (parts.size() < 2 || parts.size() > 4) not_understood();
  while (is_slice && parts.size() < 4) parts.push_back(literal({}));
  return made(is_slice ? ExpressionKind::slice : ExpressionKind::member, std::move(parts));
}

// A call of a function by name, or of a method of a value.
Expression ExpressionParser::called(Expression value) {
  Expression result;
  if (value.kind == ExpressionKind::variable) {
    result = made(ExpressionKind::call, {}, value.name);
    check_known(value.name, "function", functions_);
  } else if (value.kind == ExpressionKind::member &&
             value.parts[1].kind == ExpressionKind::literal && value.parts[1].value.is_text()) {
    const std::string method = value.parts[1].value.text();
    check_known(method, "method", template_method_names());
    result = made(ExpressionKind::method, {std::move(value.parts[0])}, method);
  } else {
    not_understood();
  }
  arguments(result);
  return result;
}

void ExpressionParser::check_known(const std::string& name, const char* what,
                                   const std::vector<std::string>& known) const {
  if (std::ranges::find(known, name) == known.end())
    refuse(fmt::format("the {} '{}' is not supported{}", what, name, legal_names(name, known)));
}

void ExpressionParser::arguments(Expression& call) {
  expect("(");
  while (!take_if(")")) {
    if (here().word == TemplateWord::name && peek(1).word == TemplateWord::sign &&
        peek(1).text == "=") {
      const std::string key = take().text;
      ++at_;
      call.named.emplace_back(key, expression());
    } else {
      call.parts.push_back(expression());
    }
    if (!is(TemplateWord::sign, ")")) expect(",");
  }
}

Expression ExpressionParser::literal(TemplateValue value) const {
  return {.kind = ExpressionKind::literal, .line = here().line, .value = std::move(value)};
}

Expression ExpressionParser::primary() {
  switch (here().word) {
    case TemplateWord::string: {
      std::string text = take().text;
      while (here().word == TemplateWord::string) text += take().text;
      return literal(text);
    }
    case TemplateWord::integer: return literal(static_cast<int64_t>(std::stoll(take().text)));
    case TemplateWord::number: return literal(decimal_number(take().text).value());
    case TemplateWord::name: return named_value();
    default: break;
  }
  if (take_if("(")) return in_parentheses();
  if (take_if("[")) return sequence("]", ExpressionKind::list);
  if (take_if("{")) return sequence("}", ExpressionKind::map);
  not_understood();
}

Expression ExpressionParser::named_value() {
  const std::string text = take().text;
  if (text == "true" || text == "True") return literal(true);
  if (text == "false" || text == "False") return literal(false);
  if (text == "none" || text == "None") return literal({});
  return made(ExpressionKind::variable, {}, text);
}

Expression ExpressionParser::in_parentheses() {
  if (take_if(")")) return made(ExpressionKind::list, {});
  Expression first = expression();
  if (take_if(")")) return first;
  expect(",");
  Expression result = sequence(")", ExpressionKind::list);
  result.parts.insert(result.parts.begin(), std::move(first));
  return result;
}

Expression ExpressionParser::sequence(std::string_view end, ExpressionKind kind) {
  Expression result = made(kind, {});
  while (!take_if(end)) {
    result.parts.push_back(expression());
    if (kind == ExpressionKind::map) {
      expect(":");
      result.parts.push_back(expression());
    }
    if (!is(TemplateWord::sign, end)) expect(",");
  }
  return result;
}

}  // namespace booster::text
