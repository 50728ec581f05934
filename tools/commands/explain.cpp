#include "tools/explain/explain.h"

#include "tools/commands/commands.h"
#include "tools/commands/queries.h"
#include "platform/error.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

namespace booster::cli {

namespace {

constexpr const char* explain_footer =
    "OP is a name of the strategy's original system (torch's; Paddle's for fp16_paddle) or of\n"
    "ours, with a DTYPE for each of its tensor arguments: f16 bf16 f32 f64 i64 bool f8_e4m3 ...,\n"
    "or float16, torch.float16. Without OP, or with -, every line of standard input is read\n"
    "as arguments of its own, after those given here.";

std::map<std::string, std::string> settings_of(const Words& texts) {
  std::map<std::string, std::string> settings;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    check(equals != std::string::npos && equals > 0, "--set: no setting; got {}, want key=value",
          text);
    settings[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return settings;
}

struct ExplainLine {
  CLI::App app{"In which dtype an op would run under a strategy, and by which rule."};
  Question question;
  Words words;  // the op and its dtypes
  Words settings;
  bool json = false;

  ExplainLine() {
    app.name("booster explain");
    app.footer(explain_footer);
    app.add_option("OP", words, "an op, then its arguments' dtypes");
    app.add_option("--strategy", question.strategy,
                   fmt::format("{}", fmt::join(explained_strategies(), ", ")));
    app.add_option("--level", question.level,
                   "of fp16_apex: O0 to O3; of fp16_paddle: O0 OD O1 O2");
    app.add_option("--device", question.device, "cuda (the default) or cpu");
    app.add_option("--set", settings, "key=value: a setting of the strategy")
        ->allow_extra_args(false);
    app.add_flag("--json", json, "a JSON object per answer");
    // In a line of standard input the last occurrence of an option counts.
    for (CLI::Option* option : app.get_options())
      if (option->get_items_expected_max() == 1) option->take_last();
  }

  // Throws for invalid arguments; returns the exit code if nothing is left to do (--help).
  int parse(const Words& given) {
    try {
      app.parse(Words(given.rbegin(), given.rend()));
    } catch (const CLI::CallForHelp& help) {
      return app.exit(help);
    } catch (const CLI::ParseError& error) {
      fail("explain: {}; `booster explain --help` shows the usage", error.what());
    }
    question.settings = settings_of(settings);
    if (words.empty()) return -1;
    question.op = words.front();
    question.dtypes.assign(words.begin() + 1, words.end());
    return -1;
  }

};

void print_json(const Explanation& answer, int line) {
  nlohmann::ordered_json json;
  if (line > 0) json["line"] = line;
  json["op"] = answer.op;
  json["device"] = answer.device;
  json["arguments"] = answer.arguments;
  if (answer.error.empty()) {
    json["runs_in"] = answer.runs_in;
    json["returns"] = answer.returns;
  } else {
    json["error"] = answer.error;
  }
  if (!answer.in_model.empty()) json["in_model"] = answer.in_model;
  json["rule"] = answer.rule;
  json["list"] = answer.list;
  json["source"] = answer.source;
  fmt::print("{}\n", json.dump());
}

// Names the device whose rules are shown; the default's rules differ from training on a CPU.
std::string on_device(const std::string& given) {
  const char* hint = given.empty() ? " (the default; --device cpu for the CPU)" : "";
  return "on " + explained_device(given) + hint;
}

void print_text(const Explanation& answer, const std::string& given_device) {
  const std::string call = fmt::format("{}({})", answer.op, fmt::join(answer.arguments, ", "));
  const std::string place = on_device(given_device);
  if (answer.error.empty())
    fmt::print("{} runs in {} and returns {} {}\n", call, answer.runs_in, answer.returns, place);
  else
    fmt::print("{} is an error {}: {}\n", call, place, answer.error);
  if (!answer.in_model.empty()) fmt::print("  model   {}\n", answer.in_model);
  fmt::print("  rule    {}\n  list    {}\n  source  {}\n", answer.rule, answer.list, answer.source);
}

int answer(const ExplainLine& query, int line) {
  const Explanation explanation = explain(query.question);
  if (query.json)
    print_json(explanation, line);
  else
    print_text(explanation, query.question.device);
  return 0;
}

int answer_explain(const Words& words, int line) {
  ExplainLine query;
  const int code = query.parse(words);
  return code >= 0 ? code : answer(query, line);
}

}  // namespace

int explain_op(const std::vector<std::string>& arguments) {
  ExplainLine query;
  const int code = query.parse(arguments);
  if (code >= 0) return code;
  const bool asks_lines = query.words.empty() || query.words == Words{"-"};
  if (!asks_lines) return answer(query, 0);
  check(!query.words.empty() || !::isatty(STDIN_FILENO),
        "explain: no op; want OP DTYPE... --strategy NAME, or questions on standard input");
  Words common = arguments;
  std::erase(common, "-");
  return answer_lines(common, query.json, answer_explain);
}

int list_ops(const ListOps& what) {
  const auto rows = listed_ops({.strategy = what.strategy,
                                .level = what.level,
                                .device = what.device,
                                .settings = settings_of(what.settings)});
  if (!what.json)
    fmt::print("{} {}{}\n", what.strategy, rows.empty() ? "has no op lists " : "",
               on_device(what.device));
  for (const OpClassRow& row : rows) {
    if (what.json)
      fmt::print("{}\n", nlohmann::ordered_json{{"op", row.op},
                                                {"class", row.op_class},
                                                {"list", row.list},
                                                {"overloads", row.overloads},
                                                {"source", row.source}}
                             .dump());
    else
      fmt::print("{:<48} {:<18} {:<34} {}\n", row.op, row.op_class, row.list, row.source);
  }
  return 0;
}

}  // namespace booster::cli
