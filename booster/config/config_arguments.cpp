// The command line of a program that uses a Config.
#include "booster/config/config.h"
#include "booster/config/config_layout.h"
#include "parallel/rendezvous/rank_notes.h"
#include "platform/program.h"
#include "platform/json/json_document.h"
#include "platform/system_limits.h"
#include "platform/warn.h"

#include <CLI/CLI.hpp>
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
    {"--config", "", "FILE", "JSON config; missing options have their defaults"},
    {"--set", "", "key.path=value", "overrides one value of the config; may be repeated"}};
const std::vector<ConfigArgument> ending_arguments = {
    {"--check", "", "", "checks the config and exits"},
    {"--schema", "", "", "prints the JSON schema of configs and exits"},
    {"--help", "", "", "this text"}};

std::string form_of(const ConfigArgument& argument) {
  if (argument.form.empty()) return argument.name;
  return argument.name +
         (argument.alone.empty() ? " " + argument.form : " [" + argument.form + "]");
}

std::string help_of(const char* program_name, const ProgramConfig& program) {
  std::string own, lines;
  for (const auto& argument : program.arguments) own += " [" + form_of(argument) + "]";
  for (const auto* arguments : {&common_arguments, &program.arguments, &ending_arguments})
    for (const auto& argument : *arguments)
      lines += fmt::format("  {:<24} {}\n", form_of(argument), argument.description);
  return fmt::format(usage_text, program_name, own, lines, describe(config_layout(program)));
}

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;  // key.path=value, in the order of the command line
  bool only_check = false, only_schema = false;
};

// Calls `take` with the values of each occurrence immediately, because later settings override
// earlier ones.
CLI::Option* add_setting(CLI::App& app, const std::string& name,
                         std::function<void(const std::vector<std::string>&)> take) {
  const auto call = [take](const CLI::results_t& values) {
    take(values);
    return true;
  };
  return app.add_option(name, CLI::callback_t(call))->trigger_on_parse();
}

// Values may be names of files, of any bytes but NUL; JSON could not hold them.
std::string as_list(const ConfigArgument& argument, const std::vector<std::string>& values) {
  check(values != std::vector<std::string>{""}, "command line: {} needs a value", argument.name);
  std::string list;
  for (const std::string& value : values) list += '\0' + value;
  return list;
}

void declare(CLI::App& app, const ConfigArgument& argument, Arguments& arguments) {
  constexpr int any_number = 1 << 20;
  CLI::Option* option =
      add_setting(app, argument.name, [&argument, &arguments](const auto& values) {
        arguments.overrides.push_back(
            argument.path + "=" + (argument.several ? as_list(argument, values) : values.back()));
      });
  if (argument.several) option->expected(0, any_number);
  if (!argument.alone.empty()) option->expected(0, 1)->default_str(argument.alone);
}

void take_config(Arguments& arguments, const std::string& file) {
  check(arguments.config.empty(),
        "command line: --config given twice; got {} and {}, want one file",
        show_text(arguments.config), show_text(file));
  check(!file.empty(), "command line: --config needs a file; got an empty name");
  arguments.config = file;
}

// Reads the command line; ends the program for --help.
Arguments read_arguments(int argc, const char* const* argv, const ProgramConfig& program) {
  CLI::App app("", "command line");
  app.allow_extras();
  app.formatter_fn([&](const CLI::App*, const std::string&, CLI::AppFormatMode) {
    return help_of(argv[0], program);
  });
  Arguments arguments;
  add_setting(app, "--config", [&](const auto& values) { take_config(arguments, values.back()); });
  add_setting(app, "--set",
              [&](const auto& values) { arguments.overrides.push_back(values.back()); });
  for (const ConfigArgument& argument : program.arguments) declare(app, argument, arguments);
  app.add_flag("--check", arguments.only_check);
  app.add_flag("--schema", arguments.only_schema);
  if (!parse_command_line(app, argc, argv)) std::exit(0);
  if (app.remaining_size() > 0) {
    const std::string word = app.remaining().front();
    check(word.starts_with("-") || word.find('=') == word.npos,
          "command line: a value without --set; got {}, want --set {}", show_text(word), word);
    fail_unknown_word(app, word);
  }
  return arguments;
}

// Prints an error. With several ranks, it names this rank.
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
    say_error(text_of_error(error).c_str());
  } catch (...) {
    say_error("an unknown exception");
  }
  std::fflush(nullptr);
  std::quick_exit(code);  // not exit(), which would destroy objects in use
}

}  // namespace

Config Config::from_args(int argc, const char* const* argv, const ProgramConfig& program) {
  report_uncaught_errors();
  const Arguments arguments = read_arguments(argc, argv, program);
  if (arguments.only_schema) {
    fmt::print("{}\n", config_schema(program).dump(2));
    std::exit(0);
  }
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

// Opens missing standard files. Otherwise a file that the program opens would get such a
// descriptor, and receive printed text. open() takes the lowest free descriptor.
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
