// The syntax of chat templates: a subset of Jinja's. Thread-safe: functions share no state.
#pragma once

#include "core/text/chat/template_values.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace booster::text {

// --- words of a template
enum class TemplateWord : uint8_t {
  text,           // outside of blocks
  block_begin,    // {%
  block_end,      // %}
  printed_begin,  // {{
  printed_end,    // }}
  name,
  integer,
  number,
  string,
  sign,  // an operator or a bracket
  end,
};

struct TemplateToken {
  TemplateWord word;
  std::string text;
  int line;
};

// Cuts a template into words. White space around blocks goes as transformers has Jinja set up:
// trim_blocks and lstrip_blocks; "-" removes all of it, "+" none. Throws an Error of kind data that
// begins with "line N: ".
std::vector<TemplateToken> template_tokens(std::string_view source);

// --- trees
enum class ExpressionKind : uint8_t {
  literal,      // value
  variable,     // name
  list,         // parts
  map,          // parts: key, value, key, value ...
  negative,     // - part
  opposite,     // not part
  both,         // part and part
  either,       // part or part
  binary,       // part name part: "+", "==" ...
  within,       // part in part
  conditional,  // part if part else part, or without the last
  member,       // part[part], part.name
  slice,        // part[part:part:part]
  call,         // name(parts): a function or a macro
  method,       // part.name(parts)
  filter,       // part | name(parts)
  test,         // part is name(parts)
};

struct Expression {
  ExpressionKind kind;
  int line = 0;
  std::string name = {};
  TemplateValue value = {};
  std::vector<Expression> parts = {};
  std::vector<std::pair<std::string, Expression>> named = {};  // arguments by name
};

enum class StatementKind : uint8_t {
  text,        // text
  print,       // {{ expressions[0] }}
  set,         // set names[0] = expression; names[0].names[1] = expression
  set_block,   // set names[0] and body
  loop,        // for names in expressions[0], if expressions[1]: body, else other
  choice,      // if expressions[0]: body, else other
  generation,  // body is an answer
  macro,       // names[0]: the macro's, then its parameters'; expressions: the last ones' defaults
  leave,       // break
  next,        // continue
};

struct Statement {
  StatementKind kind;
  int line = 0;
  std::string text = {};
  std::vector<std::string> names = {};
  std::vector<Expression> expressions = {};
  std::vector<Statement> body = {}, other = {};
};

// Throws an Error of kind data that begins with "line N: " for what is not understood.
std::vector<Statement> parse_template(std::string_view source);

}  // namespace booster::text
