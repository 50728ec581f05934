#include "platform/error.h"
#include "platform/files/atomic_file.h"
#include "platform/warn.h"
#include "tools/commands/commands.h"
#include "tools/new/project_files.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <filesystem>

namespace booster::cli {

namespace {

namespace fs = std::filesystem;

// The folder appears with all files or not at all.
int make_project(const std::string& given) {
  const fs::path target = given.ends_with('/') ? fs::path(given).parent_path() : fs::path(given);
  const std::string name = target.filename().string();
  check_project_name(name);
  const auto refusal = fmt::format("new: {} exists already; want a name that is free", name);
  check(!is_there(target), "{}", refusal);
  if (target.has_parent_path()) make_folders(target.parent_path());
  AtomicFolder folder(target);
  for (const ProjectFile& file : project_files(name)) {
    const fs::path path = folder.path() / file.path;
    make_folders(path.parent_path());
    FileWriter writer(path);
    writer.write(file.text);
    writer.close();
  }
  check(folder.commit_new(), "{}", refusal);
  fmt::print("{} holds a model, a training and a test; {}/README.md says how to build them\n",
             terminal_text(target.string()), terminal_text(target.string()));
  return 0;
}

}  // namespace

Action new_command(CLI::App& line) {
  const auto name = std::make_shared<std::string>();
  line.add_option("NAME", *name, "of the project; a folder before it is created if needed")
      ->required();
  return [name](const Words&) { return make_project(*name); };
}

}  // namespace booster::cli
