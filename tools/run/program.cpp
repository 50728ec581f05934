#include "tools/run/program.h"

#include "platform/environment.h"
#include "platform/error.h"

#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <vector>

namespace booster {

namespace fs = std::filesystem;

namespace {

bool is_executable(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

std::string hint(const std::string& name, const fs::path& folder) {
  std::vector<std::string> programs;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored))
    if (is_executable(entry.path())) programs.push_back(entry.path().filename().string());
  const std::string near = nearest_name(fs::path(name).filename().string(), programs);
  return near.empty() ? "" : fmt::format(" (did you mean {}?)", (folder / near).string());
}

std::string find_along_path(const std::string& name) {
  std::istringstream folders(environment::is_set("PATH") ? environment::text("PATH")
                                                         : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    if (is_executable(candidate)) return candidate.string();
  }
  const bool is_here = fs::exists(name);
  fail("run: no such program in PATH; got '{}'{}", name,
       is_here ? fmt::format("; use ./{} for the one in this folder", name)
               : hint(name, "/usr/bin"));
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') == std::string::npos) return find_along_path(name);
  const fs::path path = name, folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code ignored;
  check(fs::exists(path, ignored), "run: no such program; got '{}'{}", name, hint(name, folder));
  check(!fs::is_directory(path, ignored), "run: not a program; got the folder '{}'", name);
  check(is_executable(path),
        "run: not executable; got '{}', want a program, or its interpreter before it", name);
  return name;
}

}  // namespace booster
