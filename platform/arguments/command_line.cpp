#include "platform/program.h"

#include "platform/error.h"
#include "platform/json/json_document.h"

#include <CLI/CLI.hpp>

#include <algorithm>

namespace booster {

namespace {

using Words = std::vector<std::string>;

// The subcommand that the words have reached, with its full name.
struct Reached {
  const CLI::App* app;
  std::string name;
};

Reached reached_by(const CLI::App& app) {
  Reached at = {&app, app.get_name()};
  while (!at.app->get_subcommands().empty()) {
    at.app = at.app->get_subcommands().front();
    at.name += " " + at.app->get_name();
  }
  return at;
}

bool is_option(const std::string& word) { return word.size() > 1 && word.starts_with("-"); }

std::string before_value(const std::string& word) { return word.substr(0, word.find('=')); }

// Returns the names of the options that the help shows.
Words option_names(const CLI::App& app) {
  Words names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

Words subcommand_names(const CLI::App& app) {
  Words names;
  for (const CLI::App* subcommand : app.get_subcommands(nullptr))
    names.push_back(subcommand->get_name());
  return names;
}

const CLI::Option* option_of(const CLI::App& app, const std::string& word) {
  return is_option(word) ? app.get_option_no_throw(before_value(word)) : nullptr;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

// CLI11 gives "--name=" the next word as its value.
void refuse_empty_values(const CLI::App& app, const Words& words) {
  for (size_t i = 0; i < words.size() && words[i] != "--"; ++i) {
    const CLI::Option* option = option_of(app, words[i]);
    if (!is_option(words[i]) && app.get_prefix_command()) return;
    if (!option) continue;
    check(!words[i].starts_with("--") || !words[i].ends_with("=") ||
              words[i].find('=') + 1 < words[i].size(),
          "{}: {} needs a value; got an empty one", app.get_name(), before_value(words[i]));
    const bool apart = takes_value(*option) && words[i].find('=') == std::string::npos;
    if (apart && option->get_items_expected_min() > 0) ++i;
  }
}

// Names the option that has too many values or none, because CLI11's error does not.
[[noreturn]] void fail_mismatch(const Reached& at, const Words& words, const std::string& text) {
  for (const std::string& word : words) {
    const CLI::Option* option = option_of(*at.app, word);
    if (!option || word.find('=') == std::string::npos) continue;
    check(takes_value(*option), "{}: {} takes no value; got {}", at.name, before_value(word),
          show_text(word));
  }
  for (const CLI::Option* option : at.app->get_options())
    check(static_cast<int>(option->count()) <= std::max(1, option->get_items_expected_max()),
          "{}: {} is given more than once; want it once", at.name, option->get_name());
  check(words.empty() || !option_of(*at.app, words.back()), "{}: {} needs a value", at.name,
        words.empty() ? "" : words.back());
  fail("{}: {}", at.name, text);
}

[[noreturn]] void fail_conversion(const Reached& at, const std::string& text) {
  for (const CLI::Option* option : at.app->get_options()) {
    if (option->empty() || text.find(option->get_name() + " = ") == std::string::npos) continue;
    const std::string type = option->get_type_name();
    const char* wanted = type == "INT"     ? "a whole number"
                         : type == "UINT"  ? "a whole number from 0"
                         : type == "FLOAT" ? "a number"
                                           : type.c_str();
    fail("{}: {}: wrong value; got {}, want {}", at.name, option->get_name(),
         show_text(option->results().back()), wanted);
  }
  fail("{}: {}", at.name, text);
}

[[noreturn]] void fail_parse(const CLI::App& app, const Words& words,
                             const CLI::ParseError& error) {
  const Reached at = reached_by(app);
  const std::string text = error.what();
  const auto is = [&](auto* kind) { return dynamic_cast<decltype(kind)>(&error) != nullptr; };
  // CLI11 names what is missing first; a wrong word is often the reason.
  if (app.remaining_size(true) > 0 && !app.get_prefix_command())
    fail_unknown_word(app, app.remaining(true).front());
  if (is(static_cast<const CLI::ArgumentMismatch*>(nullptr))) fail_mismatch(at, words, text);
  if (is(static_cast<const CLI::ConversionError*>(nullptr))) fail_conversion(at, text);
  if (is(static_cast<const CLI::ExcludesError*>(nullptr)))
    fail("{}: {}; want one of them", at.name, text);
  if (is(static_cast<const CLI::RequiredError*>(nullptr)))
    if (const Words names = subcommand_names(*at.app); !names.empty())
      fail("{}: no command{}", at.name, legal_names("", names));
  fail("{}: {}; `{} --help` shows the usage", at.name, text, at.name);
}

}  // namespace

void fail_unknown_word(const CLI::App& app, const std::string& word) {
  const Reached at = reached_by(app);
  if (is_option(word))
    fail("{}: unknown option; got {}{}", at.name, show_text(before_value(word)),
         legal_names(before_value(word), option_names(*at.app)));
  if (const Words names = subcommand_names(*at.app); !names.empty())
    fail("{}: unknown command; got {}{}", at.name, show_text(word), legal_names(word, names));
  fail("{}: unexpected argument; got {}, want an option; --help shows them", at.name,
       show_text(word));
}

bool parse_command_line(CLI::App& app, const Words& words) {
  refuse_empty_values(app, words);
  try {
    app.parse(Words(words.rbegin(), words.rend()));
  } catch (const CLI::Success& asked) {
    app.exit(asked);
    return false;
  } catch (const CLI::ParseError& error) {
    fail_parse(app, words, error);
  }
  if (app.get_prefix_command() && app.remaining_size() > 0)
    if (const std::string word = app.remaining().front(); is_option(word) && word != "--")
      fail_unknown_word(app, word);
  return true;
}

bool parse_command_line(CLI::App& app, int argc, const char* const* argv) {
  return parse_command_line(app, Words(argv + std::min(argc, 1), argv + argc));
}

}  // namespace booster
