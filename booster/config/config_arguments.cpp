#include "booster/config/config.h"
#include "booster/config/config_layout.h"
#include "booster/profile/step_range.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include <unistd.h>

namespace booster {

namespace {

constexpr const char* usage_text =
    "usage: {} [--config FILE] [--set key.path=value ...] [--profile FIRST:LAST]\n"
    "       [--diagnose [FIRST:LAST]]\n"
    "\n"
    "  --config FILE          JSON config; what it leaves out has its default\n"
    "  --set key.path=value   overrides one value of the config; may be repeated\n"
    "  --profile FIRST:LAST   shows where the time of these steps goes; sets train.profile\n"
    "  --diagnose [FIRST:LAST]\n"
    "                         looks at the numerics of these steps, or all; sets train.diagnose\n"
    "  --help                 this text\n"
    "\n"
    "What a config may hold:\n{}";

const std::string all_steps = "1:1000000000000";

struct Arguments {
  std::string config;
  std::vector<std::string> overrides;
};

Arguments parse_arguments(int argc, const char* const* argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    std::string name = argv[i];
    if (name == "--help" || name == "-h") {
      fmt::print(usage_text, argv[0], describe(config_layout()));
      std::exit(0);
    }
    const size_t equals = name.find('=');
    const bool joined = name.substr(0, 2) == "--" && equals != name.npos;
    std::string value = joined ? name.substr(equals + 1) : "";
    if (joined) name.resize(equals);
    check(name == "--config" || name == "--set" || name == "--profile" || name == "--diagnose",
          "command line: unknown option; got {}{}", show_text(name),
          legal_names(name, {"--config", "--set", "--profile", "--diagnose", "--help"}));
    if (name == "--diagnose") {  // its value is optional
      if (!joined && i + 1 < argc && parse_step_range(argv[i + 1])) value = argv[++i];
      if (!joined && value.empty()) value = all_steps;
      arguments.overrides.push_back("train.diagnose=" + value);
      continue;
    }
    check(joined || i + 1 < argc, "command line: {} needs a value", name);
    if (!joined) value = argv[++i];
    if (name == "--set") {
      arguments.overrides.push_back(value);
      continue;
    }
    if (name == "--profile") {
      arguments.overrides.push_back("train.profile=" + value);
      continue;
    }
    check(arguments.config.empty(),
          "command line: --config given twice; got {} and {}, want one file",
          show_text(arguments.config), show_text(value));
    check(!value.empty(), "command line: --config needs a file; got an empty name");
    arguments.config = value;
  }
  return arguments;
}

// Not with fmt::print, which throws if stderr is closed.
void say_error(const char* text) {
  std::fputs(("error: " + std::string(text) + "\n").c_str(), stderr);
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
  ::_exit(code);
}

}  // namespace

Config Config::from_args(int argc, const char* const* argv) {
  report_uncaught_errors();
  const Arguments arguments = parse_arguments(argc, argv);
  if (!arguments.config.empty()) return from_file(arguments.config, arguments.overrides);
  return from_text("{}", "config", arguments.overrides);
}

void report_uncaught_errors() { std::set_terminate(end_with_error); }

}  // namespace booster
