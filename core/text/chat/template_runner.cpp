#include "core/text/chat/template_runner.h"

#include "core/text/chat/template_filters.h"
#include "platform/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace booster::text {

namespace {

constexpr int64_t most_statements = 2'000'000;  // a hostile template ends here
constexpr int deepest_call = 50;
constexpr size_t longest_output = size_t{1} << 28;

class TemplateRunner {
 public:
  explicit TemplateRunner(const TemplateMap& variables) { scopes_.push_back(variables); }

  TemplateOutput run(const std::vector<Statement>& statements) {
    execute(statements);
    return std::move(output_);
  }

 private:
  enum class Flow : uint8_t { on, leave, next };

  Flow execute(const std::vector<Statement>& statements) {
    for (const Statement& statement : statements)
      if (const Flow flow = one(statement); flow != Flow::on) return flow;
    return Flow::on;
  }

  // Adds the line of the innermost statement or expression that fails.
  template <class Action>
  auto at_line(int line, const Action& action) {
    try {
      return action();
    } catch (const Error& error) {
      if (std::string_view(error.what()).starts_with("line ")) throw;
      fail_data("line {}: {}", line, error.what());
    }
  }

  Flow one(const Statement& s) {
    return at_line(s.line, [&] {
      count();
      switch (s.kind) {
        case StatementKind::text: print(s.text); break;
        case StatementKind::print: print(value_of(s.expressions[0]).shown()); break;
        case StatementKind::set: set(s.names, value_of(s.expressions[0])); break;
        case StatementKind::set_block: set(s.names, text_of(s.body)); break;
        case StatementKind::loop: return loop(s);
        case StatementKind::choice:
          return execute(value_of(s.expressions[0]).truth() ? s.body : s.other);
        case StatementKind::generation: return generation(s);
        case StatementKind::macro: macros_[s.names[0]] = &s; break;
        case StatementKind::leave: return Flow::leave;
        case StatementKind::next: return Flow::next;
      }
      return Flow::on;
    });
  }

  void count() {
    if (++statements_ > most_statements) template_error("the template does not come to an end");
  }

  void print(const std::string& text) {
    output_.text += text;
    if (output_.text.size() > longest_output) template_error("the text grows beyond 256 MiB");
  }

  Flow generation(const Statement& s) {
    const size_t begin = output_.text.size();
    const Flow flow = execute(s.body);
    output_.answers.emplace_back(begin, output_.text.size());
    return flow;
  }

  TemplateValue text_of(const std::vector<Statement>& body) {
    TemplateOutput outside = std::exchange(output_, {});
    execute(body);
    return std::exchange(output_, std::move(outside)).text;
  }

  // Returns the text of a macro, which sees its arguments and the template's own variables.
  TemplateValue called(const Expression& e) {
    const auto found = macros_.find(e.name);
    TemplateArguments given = arguments_of(e);
    if (found == macros_.end()) return function_result(e.name, given);
    const Statement& macro = *found->second;
    const size_t parameters = macro.names.size() - 1, defaults = macro.expressions.size();
    if (given.values.size() > parameters)
      template_error(fmt::format("{}: got {} arguments, want at most {}", e.name,
                                 given.values.size(), parameters));
    if (++calls_ > deepest_call) template_error("macros call each other too deeply");
    std::vector<TemplateMap> outside = std::exchange(scopes_, {scopes_.front(), {}});
    for (size_t i = 0; i < parameters; ++i) {
      const bool has_default = i + defaults >= parameters;
      TemplateValue otherwise = UndefinedValue{macro.names[i + 1]};
      if (has_default) otherwise = value_of(macro.expressions[i + defaults - parameters]);
      store(scopes_.back(), macro.names[i + 1], given.get(i, macro.names[i + 1], otherwise));
    }
    TemplateValue text = text_of(macro.body);
    scopes_ = std::move(outside);
    --calls_;
    return text;
  }

  // --- variables
  void set(const std::vector<std::string>& names, const TemplateValue& value) {
    if (names.size() == 1) return store(scopes_.back(), names[0], value);
    const TemplateValue space = variable(names[0]);
    store(space.map(), names[1], value);
  }
  static void store(TemplateMap& scope, const std::string& name, const TemplateValue& value) {
    const auto found = std::ranges::find(scope, name, &TemplateMap::value_type::first);
    if (found == scope.end())
      scope.emplace_back(name, value);
    else
      found->second = value;
  }
  TemplateValue variable(const std::string& name) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      const auto found = std::ranges::find(*scope, name, &TemplateMap::value_type::first);
      if (found != scope->end()) return found->second;
    }
    return UndefinedValue{name};
  }

  // --- loops
  Flow loop(const Statement& s) {
    const TemplateList items = kept_items(s, value_of(s.expressions[0]).items());
    for (size_t i = 0; i < items.size(); ++i) {
      count();
      scopes_.emplace_back();
      name_item(s.names, items[i]);
      store(scopes_.back(), "loop", loop_of(items, i));
      const Flow flow = execute(s.body);
      scopes_.pop_back();
      if (flow == Flow::leave) break;
    }
    return items.empty() ? execute(s.other) : Flow::on;
  }
  TemplateList kept_items(const Statement& s, TemplateList items) {
    if (s.expressions.size() < 2) return items;
    TemplateList kept;
    for (const TemplateValue& item : items) {
      scopes_.emplace_back();
      name_item(s.names, item);
      const bool keeps = value_of(s.expressions[1]).truth();
      scopes_.pop_back();
      if (keeps) kept.push_back(item);
    }
    return kept;
  }
  void name_item(const std::vector<std::string>& names, const TemplateValue& item) {
    if (names.size() == 1) return store(scopes_.back(), names[0], item);
    const TemplateList parts = item.items();
    if (parts.size() != names.size())
      template_error(fmt::format("a loop over {} names; got an item with {} parts", names.size(),
                                 parts.size()));
    for (size_t i = 0; i < names.size(); ++i) store(scopes_.back(), names[i], parts[i]);
  }
  static TemplateValue loop_of(const TemplateList& items, size_t place) {
    const auto i = static_cast<int64_t>(place), n = static_cast<int64_t>(items.size());
    const TemplateValue none_before = UndefinedValue{"previtem"},
                        none_after = UndefinedValue{"nextitem"};
    return TemplateMap{{"index", i + 1},
                       {"index0", i},
                       {"revindex", n - i},
                       {"revindex0", n - i - 1},
                       {"first", i == 0},
                       {"last", i + 1 == n},
                       {"length", n},
                       {"previtem", i == 0 ? none_before : items[place - 1]},
                       {"nextitem", i + 1 == n ? none_after : items[place + 1]}};
  }

  // --- expressions
  TemplateValue value_of(const Expression& e) {
    return at_line(e.line, [&] { return evaluated(e); });
  }

  TemplateValue evaluated(const Expression& e) {
    const auto part = [&](size_t i) { return value_of(e.parts[i]); };
    switch (e.kind) {
      case ExpressionKind::literal: return e.value;
      case ExpressionKind::variable: return variable(e.name);
      case ExpressionKind::list: return all_of(e.parts);
      case ExpressionKind::map: return map_of(e);
      case ExpressionKind::negative: return combined("-", int64_t{0}, part(0));
      case ExpressionKind::opposite: return !part(0).truth();
      case ExpressionKind::both: {
        const TemplateValue left = part(0);
        return left.truth() ? part(1) : left;
      }
      case ExpressionKind::either: {
        const TemplateValue left = part(0);
        return left.truth() ? left : part(1);
      }
      case ExpressionKind::binary: return combined(e.name, part(0), part(1));
      case ExpressionKind::within: {
        const TemplateValue item = part(0);
        return contains_value(part(1), item);
      }
      case ExpressionKind::conditional:
        if (part(1).truth()) return part(0);
        return e.parts.size() > 2 ? part(2) : TemplateValue(UndefinedValue{"else"});
      case ExpressionKind::member: return member_of(part(0), part(1));
      case ExpressionKind::slice: return slice_of(part(0), part(1), part(2), part(3));
      case ExpressionKind::call: return called(e);
      case ExpressionKind::method: return method_result(e.name, arguments_of(e));
      case ExpressionKind::filter: return filtered_value(e.name, arguments_of(e));
      case ExpressionKind::test: return passes_test(e.name, arguments_of(e));
    }
    return {};
  }

  TemplateList all_of(const std::vector<Expression>& expressions) {
    TemplateList values;
    for (const Expression& one : expressions) values.push_back(value_of(one));
    return values;
  }
  TemplateValue map_of(const Expression& e) {
    TemplateMap map;
    for (size_t i = 0; i < e.parts.size(); i += 2)
      store(map, value_of(e.parts[i]).text(), value_of(e.parts[i + 1]));
    return map;
  }
  TemplateArguments arguments_of(const Expression& e) {
    TemplateArguments arguments{all_of(e.parts), {}};
    for (const auto& [name, expression] : e.named)
      arguments.named.emplace_back(name, value_of(expression));
    return arguments;
  }

  std::vector<TemplateMap> scopes_;
  TemplateOutput output_;
  std::map<std::string, const Statement*> macros_;
  int64_t statements_ = 0;
  int calls_ = 0;
};

}  // namespace

TemplateOutput run_template(const std::vector<Statement>& statements,
                            const TemplateMap& variables) {
  return TemplateRunner(variables).run(statements);
}

bool marks_answers(const std::vector<Statement>& statements) {
  return std::ranges::any_of(statements, [](const Statement& s) {
    return s.kind == StatementKind::generation || marks_answers(s.body) || marks_answers(s.other);
  });
}

}  // namespace booster::text
