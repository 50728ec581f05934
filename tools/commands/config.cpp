#include "booster/config/config.h"
#include "booster/config/config_layout.h"
#include "booster/config/registry.h"
#include "platform/json/json_document.h"
#include "tools/commands/commands.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <unistd.h>

namespace booster::cli {

namespace {

// Replaces this process by a program that checks its own configs with Config::from_args.
[[noreturn]] void ask_program(const std::string& program, std::vector<std::string> words) {
  words.insert(words.begin(), program);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::fflush(stdout);
  ::execv(program.c_str(), arguments.data());
  fail(
      "--program: cannot be started: {}; got {}, want a program that reads its config with "
      "Config::from_args",
      std::strerror(errno), show_text(program));
}

// Returns the default program for sections: the example from the same build as this executable; ""
// if it does not exist.
std::string shipped_program() {
  std::error_code ignored;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", ignored);
  const auto example = own.parent_path().parent_path() / "examples" / "vit_caltech101";
  return std::filesystem::exists(example, ignored) ? example.string() : "";
}

// `given` is the value of --program: "" is the shipped example, "none" the library alone.
std::string program_for(const std::string& given) {
  if (given == "none") return "";
  return given.empty() ? shipped_program() : given;
}

// Returns the top-level objects that the library does not know.
std::vector<std::string> sections_of_programs(const std::string& path) {
  std::vector<std::string> names;
  const Section layout = config_layout();
  for (const JsonValue& member : read_json(path).items) {
    bool known = member.kind != JsonKind::object;
    for (const Section& section : layout.sections) known |= section.name == member.key;
    if (!known) names.push_back(member.key);
  }
  return names;
}

int check_config(const std::string& path, const std::string& given,
                 const std::vector<std::string>& libraries) {
  const std::string program = libraries.empty() ? program_for(given) : "";
  if (!program.empty()) ask_program(program, {"--config", path, "--check"});
  for (const auto& library : libraries) load_library(library);
  const auto notes = check_objects(Config::from_file(path, {}, {.open = true}));
  fmt::print("{}: valid\n", path);
  if (const auto names = sections_of_programs(path); !names.empty())
    fmt::print(
        "not checked: {}, which the library does not know; --program PROGRAM has the "
        "program check its own sections too\n",
        fmt::join(names, ", "));
  for (const std::string& note : notes) fmt::print("{}\n", note);
  return 0;
}

int print_config_schema(const std::string& given, const std::vector<std::string>& libraries) {
  const std::string program = libraries.empty() ? program_for(given) : "";
  if (!program.empty()) ask_program(program, {"--schema"});
  for (const auto& library : libraries) load_library(library);
  fmt::print("{}\n", config_schema({.open = true}).dump(2));
  return 0;
}

}  // namespace

Action config_command(CLI::App& line) {
  struct Values {
    std::string path, program;
    Words libraries;
    std::function<int()> asked;
  };
  const auto values = std::make_shared<Values>();
  Values* const at = values.get();  // the line keeps its callbacks no longer than the action
  line.footer([] {
    return "The settings of a config. A program may add sections; its own --help shows them:\n" +
           describe(config_layout());
  });
  line.require_subcommand(1);
  const char* asked =
      "start this program with --check or --schema, so that its own sections are known too; "
      "default: the shipped example, if it was built; none: no program";
  const auto add = [&](const char* name, const char* help, auto act) {
    CLI::App* command = line.add_subcommand(name, help);
    command->callback([at, act] { at->asked = act; });
    return command;
  };
  const auto add_sources = [&](CLI::App* command) {
    CLI::Option* program = command->add_option("--program", at->program, asked);
    add_libraries(*command, at->libraries);
    command->get_option("--library")->excludes(program);
  };
  CLI::App* check = add("check", "check a config file",
                        [at] { return check_config(at->path, at->program, at->libraries); });
  check->add_option("FILE", at->path, "JSON config")->required();
  add_sources(check);
  add_sources(add("schema", "print the JSON schema",
                  [at] { return print_config_schema(at->program, at->libraries); }));
  return [values](const Words&) { return values->asked(); };
}

}  // namespace booster::cli
