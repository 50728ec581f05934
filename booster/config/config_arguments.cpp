// The command line of a program that uses a Config.
#include "booster/config/config.h"
#include "booster/config/config_layout.h"
#include "parallel/rendezvous/rank_notes.h"
#include "platform/json/json_document.h"
#include "platform/warn.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include <fcntl.h>

namespace booster {

namespace {

constexpr const char* usage_text =
    "usage: {} [--config FILE] [--set key.path=value ...]{}\n"
    "\n"
    "{}\n"
    "What a config may hold:\n{}";

// Arguments that every program has and that set no option.
const std::vector<ConfigArgument> common_arguments = {
    {"--config", "", "FILE", "JSON config; what it leaves out has its default"},
    {"--set", "", "key.path=value", "overrides one value of the config; may be repeated"}};
const std::vector<ConfigArgument> ending_arguments = {
    {"--check", "", "", "checks the config and ends"},
    {"--schema", "", "", "prints the JSON schema of configs and ends"},
    {"--help", "", "", "this text"}};

std::string form_of(const ConfigArgument& argument) {
  if (argument.form.empty()) return argument.name;
  return argument.name +
         (argument.alone.empty() ? " " + argument.form : " [" + argument.form + "]");
}

void print_help(const char* program_name, const ProgramConfig& program) {
  std::string own, lines;
  for (const auto& argument : program.arguments) own += " [" + form_of(argument) + "]";
  for (const auto* arguments : {&common_arguments, &program.arguments, &ending_arguments})
    for (const auto& argument : *arguments)
      lines += fmt::format("  {:<24} {}\n", form_of(argument), argument.description);
  fmt::print(usage_text, program_name, own, lines, describe(config_layout(program)));
}

class ArgumentReader {
 public:
  ArgumentReader(int argc, const char* const* argv, const ProgramConfig& program)
      : words_(argv + 1, argv + std::max(argc, 1)), program_name_(argv[0]), program_(program) {}

  void run() {
    for (at_ = 0; at_ < words_.size(); ++at_) read(words_[at_]);
  }

  std::string config;
  std::vector<std::string> overrides;
  bool only_check = false;

 private:
  void read(std::string word) {
    const size_t equals = word.find('=');
    const bool joined = word.starts_with("--") && equals != word.npos;
    std::optional<std::string> value;
    if (joined) value = word.substr(equals + 1);
    if (joined) word.resize(equals);
    if (word == "--set") {
      overrides.push_back(needed(word, value));
    } else if (word == "--config") {
      take_config(needed(word, value));
    } else if (const ConfigArgument* own = own_argument(word); own && own->several) {
      overrides.push_back(own->path + "=" + list_of(word, value));
    } else if (own) {
      if (!value && own->alone.empty()) value = needed(word, value);
      if (!value) value = has_value_next() ? words_[++at_] : own->alone;
      overrides.push_back(own->path + "=" + *value);
    } else if (!joined && word == "--check") {
      only_check = true;
    } else {
      end_or_fail(word, joined);
    }
  }

  void end_or_fail(const std::string& word, bool joined) const {
    const bool help = !joined && (word == "--help" || word == "-h");
    const bool schema = !joined && word == "--schema";
    if (help) print_help(program_name_, program_);
    if (schema) fmt::print("{}\n", config_schema(program_).dump(2));
    if (help || schema) std::exit(0);
    if (!word.starts_with("-") && word.find('=') != word.npos)
      fail("command line: a value without --set; got {}, want --set {}", show_text(word), word);
    fail("command line: unknown option; got {}{}", show_text(word), legal_names(word, names()));
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto* arguments : {&common_arguments, &program_.arguments, &ending_arguments})
      for (const auto& argument : *arguments) names.push_back(argument.name);
    return names;
  }

  const ConfigArgument* own_argument(const std::string& word) const {
    for (const auto& argument : program_.arguments)
      if (argument.name == word) return &argument;
    return nullptr;
  }

  bool has_value_next() const {
    return at_ + 1 < words_.size() && !words_[at_ + 1].starts_with("-");
  }

  std::string needed(const std::string& name, const std::optional<std::string>& joined) {
    if (joined) return *joined;
    check(at_ + 1 < words_.size(), "command line: {} needs a value", name);
    return words_[++at_];
  }

  // Returns the list as JSON.
  std::string list_of(const std::string& name, const std::optional<std::string>& joined) {
    std::vector<std::string> values;
    if (joined) values.push_back(*joined);
    while (has_value_next()) values.push_back(words_[++at_]);
    check(!values.empty(), "command line: {} needs a value", name);
    try {
      return nlohmann::json(values).dump();
    } catch (const nlohmann::json::exception&) {
      fail("command line: {} has a value that is not UTF-8", name);
    }
  }

  void take_config(const std::string& file) {
    check(config.empty(), "command line: --config given twice; got {} and {}, want one file",
          show_text(config), show_text(file));
    check(!file.empty(), "command line: --config needs a file; got an empty name");
    config = file;
  }

  std::vector<std::string> words_;
  const char* program_name_;
  const ProgramConfig& program_;
  size_t at_ = 0;
};

// With several ranks, each names itself.
void say_error(const char* text) {
  const std::string rank = name_of_this_rank();
  warn("error: " + rank + (rank.empty() ? "" : ": ") + text);
}

[[noreturn]] void end_with_error() {
  int code = 1;
  try {
    if (const auto error = std::current_exception()) std::rethrow_exception(error);
    std::abort();
  } catch (const Error& error) {
    code = error.exit_code();
    say_error(error.what());
  } catch (const std::exception& error) {
    say_error(error.what());
  } catch (...) {
    say_error("an unknown exception");
  }
  std::fflush(nullptr);
  std::quick_exit(code);  // not exit(): leaves objects in use alone
}

}  // namespace

Config Config::from_args(int argc, const char* const* argv, const ProgramConfig& program) {
  report_uncaught_errors();
  ArgumentReader arguments(argc, argv, program);
  arguments.run();
  const Config config = arguments.config.empty()
                            ? from_text("{}", "config", arguments.overrides, program)
                            : from_file(arguments.config, arguments.overrides, program);
  if (arguments.only_check) {
    const auto notes = check_objects(config);
    fmt::print("{}: valid\n", arguments.config.empty() ? "defaults" : arguments.config);
    for (const std::string& note : notes) fmt::print("{}\n", note);
    std::exit(0);
  }
  return config;
}

namespace {

// Without this, a file that the program opens would get the descriptor of a missing standard file,
// and receive printed text. open() takes the lowest free descriptor.
void open_standard_files() {
  for (int file = 0; file <= 2; ++file)
    if (fcntl(file, F_GETFD) < 0 && errno == EBADF) open("/dev/null", O_RDWR);
}

}  // namespace

void report_uncaught_errors() {
  open_standard_files();
  std::set_terminate(end_with_error);
}

}  // namespace booster
