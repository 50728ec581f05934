// Runs a command as a user would.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include <sys/wait.h>

namespace booster {

struct CommandResult {
  int code = 0;
  std::string output = {};  // stdout and stderr
  bool says(std::string_view part) const { return output.find(part) != std::string::npos; }
};

inline CommandResult run_command(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe);
  CommandResult result;
  std::array<char, 4096> buffer;
  while (const size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe))
    result.output.append(buffer.data(), n);
  result.code = WEXITSTATUS(::pclose(pipe));
  return result;
}

// Returns the folder of this build's files.
inline std::filesystem::path build_folder() {
  return std::filesystem::canonical("/proc/self/exe").parent_path().parent_path();
}

// Quotes a path as a word of a command.
inline std::string in_quotes(const std::filesystem::path& path) {
  return "'" + path.string() + "'";
}

// Runs the `booster` program.
inline CommandResult run_booster(const std::string& arguments) {
  return run_command("'" + (build_folder() / "tools/booster").string() + "' " + arguments);
}

}  // namespace booster
