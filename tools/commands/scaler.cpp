#include "booster/config/config_layout.h"
#include "booster/config/options/option_tables.h"
#include "booster/config/options/scaler_options.h"
#include "booster/config/overrides.h"
#include "mixed_precision/scaling/loss_scale_rules.h"
#include "platform/program.h"
#include "platform/json/json_document.h"
#include "tools/commands/commands.h"
#include "tools/commands/queries.h"
#include "tools/scaler/loss_scale_simulation.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include <unistd.h>

namespace booster::cli {

namespace {

constexpr const char* scaler_footer =
    "A pattern is a sequence of F (all gradients finite) and I (some not), each with an optional\n"
    "count: F3I2F. Numbers may be written 2^-147. Without PRESET, or with -, every line of "
    "standard\n"
    "input is read as arguments of its own; --json then holds for all of them.";

struct Query {
  std::string preset;
  std::optional<std::string> pattern;
  std::vector<std::string> overrides;
  CountedSteps counted;
  bool json = false, list = false;

  bool has_pattern() const { return pattern.has_value(); }
};

Option bug_compatible_option() {
  return boolean_option("bug_compatible", false,
                        "follow the original to infinity or 0, where training refuses");
}

OptionTable options_of(const std::string& preset) {
  OptionTable table = scaler_options(preset);
  table.push_back(bug_compatible_option());
  return table;
}

void declare_scaler(CLI::App& line, Query& query) {
  line.footer(scaler_footer);
  line.add_option("PRESET", query.preset,
                  fmt::format("{}", fmt::join(loss_scale_preset_names(), ", ")));
  line.add_option("--set", query.overrides, "key=value: an option of the preset")
      ->allow_extra_args(false);
  line.add_option("--pattern", query.pattern,
                  "the gradients of each step, finite (F) or infinite (I): F3I2F");
  line.add_option("--good", query.counted.good, "good steps counted before the first (0)");
  line.add_option("--bad", query.counted.bad, "bad steps counted before the first (0)");
  line.add_flag("--json", query.json, "a JSON object per step");
  line.add_flag("--list", query.list, "the presets and their options");
}

// Converts "2^-147" and "2**-147" to JSON's notation; returns other text unchanged.
std::string plain_number(const std::string& text) {
  const size_t sign = text.rfind("2^", 0) == 0 ? 2 : text.rfind("2**", 0) == 0 ? 3 : 0;
  int power = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data() + sign, end, power);
  if (sign == 0 || result.ec != std::errc() || result.ptr != end) return text;
  const double value = std::ldexp(1.0, power);
  return std::isfinite(value) ? fmt::format("{}", value) : text;
}

OptionValues values_of(const Query& query) {
  JsonValue root;
  root.kind = JsonKind::object;
  for (const std::string& text : query.overrides) {
    const size_t equals = std::min(text.find('='), text.size());
    const std::string value = equals < text.size() ? plain_number(text.substr(equals + 1)) : "";
    apply_override(root, text.substr(0, equals + 1) + value);
  }
  const Section section = {.name = "", .description = "", .options = options_of(query.preset)};
  return OptionValues(checked_section(section, &root, ""));
}

// Returns infinity and nan as strings, since JSON has no such numbers.
std::string json_number(double x) {
  return std::isfinite(x) ? fmt::format("{}", x) : fmt::format("\"{}\"", x);
}

void print_json(const SimulatedStep& step, size_t number, int line) {
  const std::string from = line > 0 ? fmt::format("\"line\":{},", line) : "";
  std::string note;
  if (!step.diagnosis.empty()) {
    note = fmt::format(",\"{}\":{}", step.ended ? "error" : "diagnosis",
                       nlohmann::json(step.diagnosis).dump());
  }
  fmt::print(
      "{{{}\"step\":{},\"skipped\":{},\"scale\":{},\"scale_hex\":\"{:a}\",\"good\":{},"
      "\"bad\":{}{}}}\n",
      from, number, step.skipped, json_number(step.scale), step.scale, step.good, step.bad, note);
}

void print_row(const SimulatedStep& step, size_t number) {
  const std::string note = step.diagnosis.empty() ? "" : "  " + step.diagnosis;
  fmt::print("{:>8}  {:<7}  {:>24}  {:<22}  {:>6}  {:>6}{}\n", number,
             step.skipped ? "skipped" : "", step.scale, fmt::format("{:a}", step.scale), step.good,
             step.bad, note);
}

int answer(const Query& query, int line) {
  const LossScalePreset& preset = find_loss_scale_preset(query.preset);
  const OptionValues values = values_of(query);
  check(query.has_pattern(), "scaler: no pattern; want --pattern, as F3I2F");
  LossScalePolicy policy = scaler_policy(query.preset, values);
  policy.refuses = !values.get<bool>("bug_compatible");
  check(!policy.refuses || is_usable_scale(policy.init),
        "scaler: {}: first scale out of range: f32 must hold it and its inverse; got {}, want "
        "2^-127 to 2^127 (or --set bug_compatible=true)",
        query.preset, policy.init);
  const auto steps = simulate(preset, policy, steps_of(*query.pattern), query.counted);
  if (!query.json) {
    fmt::print("{:>8}  {:<7}  {:>24}  {:<22}  {:>6}  {:>6}\n", "step", "skipped", "scale",
               "scale (hex)", "good", preset.counts_down ? "left" : "bad");
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    if (query.json)
      print_json(steps[i], i + 1, line);
    else
      print_row(steps[i], i + 1);
  }
  return steps.back().ended ? 1 : 0;
}

int print_presets() {
  for (const auto& preset : loss_scale_presets())
    fmt::print("{}: {}\n{}\n", preset.name, preset.description, describe(options_of(preset.name)));
  return 0;
}

int answer_scaler(const Words& words, int number) {
  CLI::App line("", "booster scaler");
  Query query;
  declare_scaler(line, query);
  return parse_command_line(line, words) ? answer(query, number) : 0;
}

int answer_all(const Query& query) {
  if (query.list) return print_presets();
  if (!query.preset.empty() && query.preset != "-") return answer(query, 0);
  check(query.overrides.empty() && !query.has_pattern(),
        "scaler: no preset; want one of {} before --set and --pattern",
        fmt::join(loss_scale_preset_names(), ", "));
  check(query.preset == "-" || !::isatty(STDIN_FILENO),
        "scaler: no preset; want one of {}, or questions on standard input",
        fmt::join(loss_scale_preset_names(), ", "));
  return answer_lines(query.json ? Words{"--json"} : Words{}, query.json, answer_scaler);
}

}  // namespace

Action scaler_command(CLI::App& line) {
  const auto query = std::make_shared<Query>();
  declare_scaler(line, *query);
  return [query](const Words&) { return answer_all(*query); };
}

}  // namespace booster::cli
