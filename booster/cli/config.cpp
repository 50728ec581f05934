#include "booster/cli/commands.h"
#include "booster/config/config.h"
#include "booster/config/config_layout.h"
#include "booster/config/json_document.h"
#include "booster/config/library.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include <unistd.h>

namespace booster::cli {

namespace {

// Lets a program answer about its own configs: Config::from_args understands these words.
[[noreturn]] void ask_program(const std::string& program, std::vector<std::string> words) {
  words.insert(words.begin(), program);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::fflush(stdout);
  ::execv(program.c_str(), arguments.data());
  fail("--program: cannot be started: {}; got {}, want a program that reads its config by "
       "Config::from_args",
       std::strerror(errno), show_text(program));
}

// Objects at the top that are not the library's.
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

}  // namespace

int check_config(const std::string& path, const std::string& program) {
  if (!program.empty()) ask_program(program, {"--config", path, "--check"});
  const auto notes = check_objects(Config::from_file(path, {}, {.open = true}));
  fmt::print("{}: valid\n", path);
  if (const auto names = sections_of_programs(path); !names.empty())
    fmt::print("not checked: {}, which the library does not know; --program PROGRAM has the "
               "program check its own sections too\n",
               fmt::join(names, ", "));
  for (const std::string& note : notes) fmt::print("{}\n", note);
  return 0;
}

int print_config_schema(const std::string& program, const std::vector<std::string>& libraries) {
  if (!program.empty()) ask_program(program, {"--schema"});
  for (const auto& library : libraries) load_library(library);
  fmt::print("{}\n", config_schema({.open = true}).dump(2));
  return 0;
}

}  // namespace booster::cli
