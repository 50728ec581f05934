#include "tools/explain/explain.h"

#include "platform/program.h"
#include "platform/error.h"
#include "tools/commands/commands.h"
#include "tools/commands/queries.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

namespace booster::cli {

namespace {

constexpr const char* explain_footer =
    "OP is a name of the strategy's original system (torch, or Paddle for fp16_paddle) or of\n"
    "booster. Give a DTYPE for each tensor argument: f16 bf16 f32 f64 i64 bool f8_e4m3 ...,\n"
    "or float16, torch.float16. Without OP, or with -, explain reads each line of standard\n"
    "input as further arguments after those on the command line.";

std::map<std::string, std::string> settings_of(const Words& texts) {
  std::map<std::string, std::string> settings;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    check(equals != std::string::npos && equals > 0, "--set: not a setting; got {}, want key=value",
          text);
    settings[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return settings;
}

struct Asked {
  Question question;
  Words words;  // the op and its dtypes
  Words settings;
  bool json = false;

  Question whole() const {
    Question asked = question;
    asked.settings = settings_of(settings);
    if (words.empty()) return asked;
    asked.op = words.front();
    asked.dtypes.assign(words.begin() + 1, words.end());
    return asked;
  }
};

void declare_explain(CLI::App& line, Asked& asked) {
  line.footer(explain_footer);
  line.add_option("OP", asked.words, "an op, then its arguments' dtypes");
  line.add_option("--strategy", asked.question.strategy,
                  fmt::format("{}", fmt::join(explained_strategies(), ", ")));
  line.add_option("--level", asked.question.level,
                  "of fp16_apex: O0 to O3; of fp16_paddle: O0 OD O1 O2");
  line.add_option("--device", asked.question.device, "cuda (the default) or cpu");
  line.add_option("--set", asked.settings, "key=value: a setting of the strategy")
      ->allow_extra_args(false);
  line.add_flag("--json", asked.json, "a JSON object per answer");
  // In a line of standard input the last occurrence of an option counts.
  for (CLI::Option* option : line.get_options())
    if (option->get_items_expected_max() == 1) option->take_last();
}

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

int answer(const Asked& asked, int line) {
  const Question question = asked.whole();
  const Explanation explanation = explain(question);
  if (asked.json)
    print_json(explanation, line);
  else
    print_text(explanation, question.device);
  return 0;
}

int answer_explain(const Words& words, int number) {
  CLI::App line("", "booster explain");
  Asked asked;
  declare_explain(line, asked);
  return parse_command_line(line, words) ? answer(asked, number) : 0;
}

int answer_all(const Asked& asked, Words common) {
  settings_of(asked.settings);  // throws for a wrong one
  const bool asks_lines = asked.words.empty() || asked.words == Words{"-"};
  if (!asks_lines) return answer(asked, 0);
  check(!asked.words.empty() || !::isatty(STDIN_FILENO),
        "explain: no op given; want OP DTYPE... --strategy NAME, or questions on standard input");
  std::erase(common, "-");
  return answer_lines(common, asked.json, answer_explain);
}

}  // namespace

Action explain_command(CLI::App& line) {
  const auto asked = std::make_shared<Asked>();
  declare_explain(line, *asked);
  return [asked](const Words& words) { return answer_all(*asked, words); };
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
