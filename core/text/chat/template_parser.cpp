#include "core/text/chat/template_expressions.h"

namespace booster::text {

namespace {

class TemplateParser : private ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  std::vector<Statement> whole() {
    auto statements = until({});
    if (here().word != TemplateWord::end)
      refuse(fmt::format("{} without its beginning", peek(1).text));
    return statements;
  }

 private:
  // Reads up to a block whose name is one of `ends`, or the end; that block stays.
  std::vector<Statement> until(const std::vector<std::string_view>& ends) {
    const Depth depth(*this);
    std::vector<Statement> statements;
    while (here().word != TemplateWord::end) {
      const int line = here().line;
      if (here().word == TemplateWord::text) {
        statements.push_back({.kind = StatementKind::text, .line = line, .text = take().text});
      } else if (here().word == TemplateWord::printed_begin) {
        ++at_;
        statements.push_back(
            {.kind = StatementKind::print, .line = line, .expressions = {expression()}});
        close(TemplateWord::printed_end);
      } else {
        const std::string& block = peek(1).text;
        if (std::ranges::find(ends, block) != ends.end()) return statements;
        if (block.starts_with("end") || block == "else" || block == "elif") return statements;
        ++at_;
        statements.push_back(statement(line));
      }
    }
    return statements;
  }

  void close(TemplateWord end) {
    if (here().word != end) not_understood();
    ++at_;
  }
  void block_end(std::string_view block) {
    if (here().word == TemplateWord::end) refuse(fmt::format("want {}", block));
    ++at_;
    if (name() != block) {
      --at_;
      refuse(fmt::format("got {}, want {}", here().text, block));
    }
    close(TemplateWord::block_end);
  }

  Statement statement(int line) {
    const std::string block = name();
    if (block == "if") return choice(line);
    if (block == "for") return loop(line);
    if (block == "set") return set(line);
    if (block == "macro") return macro(line);
    Statement result{.kind = StatementKind::generation, .line = line};
    if (block == "break" || block == "continue") {
      result.kind = block == "break" ? StatementKind::leave : StatementKind::next;
      close(TemplateWord::block_end);
      return result;
    }
    if (block != "generation") {
      --at_;
      refuse(fmt::format(
          "the block '{}' is not supported{}", block,
          legal_names(block, {"if", "for", "set", "macro", "break", "continue", "generation"})));
    }
    close(TemplateWord::block_end);
    result.body = until({"endgeneration"});
    block_end("endgeneration");
    return result;
  }

  Statement choice(int line) {
    const Depth depth(*this);
    Statement result{.kind = StatementKind::choice, .line = line, .expressions = {expression()}};
    close(TemplateWord::block_end);
    result.body = until({"elif", "else", "endif"});
    const std::string next = peek(1).text;
    if (here().word == TemplateWord::block_begin && next == "elif") {
      at_ += 2;
      result.other.push_back(choice(here().line));  // takes endif
      return result;
    }
    result.other = otherwise("endif");
    return result;
  }

  // Reads {% else %} and its body, if it comes, and the end of the block.
  std::vector<Statement> otherwise(std::string_view end) {
    std::vector<Statement> other;
    if (here().word == TemplateWord::block_begin && peek(1).text == "else") {
      at_ += 2;
      close(TemplateWord::block_end);
      other = until({end});
    }
    block_end(end);
    return other;
  }

  Statement loop(int line) {
    Statement result{.kind = StatementKind::loop, .line = line, .names = {name()}};
    while (take_if(",")) result.names.push_back(name());
    if (!take_name_if("in")) not_understood();
    result.expressions.push_back(either());
    if (take_name_if("if")) result.expressions.push_back(expression());
    close(TemplateWord::block_end);
    result.body = until({"else", "endfor"});
    result.other = otherwise("endfor");
    return result;
  }

  Statement set(int line) {
    Statement result{.kind = StatementKind::set, .line = line, .names = {name()}};
    if (take_if(".")) result.names.push_back(name());
    if (take_if("=")) {
      result.expressions.push_back(expression());
      close(TemplateWord::block_end);
      return result;
    }
    close(TemplateWord::block_end);
    result.kind = StatementKind::set_block;
    result.body = until({"endset"});
    block_end("endset");
    return result;
  }

  Statement macro(int line) {
    Statement result{.kind = StatementKind::macro, .line = line, .names = {name()}};
    functions_.push_back(result.names[0]);
    expect("(");
    while (!take_if(")")) {
      result.names.push_back(name());
      if (take_if("="))
        result.expressions.push_back(expression());
      else if (!result.expressions.empty())
        refuse("a parameter without a default after others");
      if (!is(TemplateWord::sign, ")")) expect(",");
    }
    close(TemplateWord::block_end);
    result.body = until({"endmacro"});
    block_end("endmacro");
    return result;
  }
};

}  // namespace

std::vector<Statement> parse_template(std::string_view source) {
  return TemplateParser(source).whole();
}

}  // namespace booster::text
