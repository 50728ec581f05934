// `booster new`, run as a user runs it. tests/project/new_project.sh builds what it writes.
#include "tests/booster/command.h"
#include "tests/booster/temporary_folder.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <set>
#include <string>

using namespace booster;

namespace fs = std::filesystem;

namespace {

std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files.insert(fs::relative(entry.path(), folder).string());
  return files;
}

}  // namespace

TEST_CASE("new writes a project of that name, in folders that it creates") {
  const TemporaryFolder folder;
  const CommandResult made = run_booster("new " + in_quotes(folder / "a/b/my_net/"));
  CHECK(made.code == 0);
  CHECK(made.says("my_net/README.md says how to build"));
  CHECK(files_in(folder / "a/b/my_net") ==
        std::set<std::string>{".gitignore", "CMakeLists.txt", "README.md", "config.json",
                              "meson.build", "src/data.cpp", "src/data.h", "src/main.cpp",
                              "src/model.cpp", "src/model.h", "src/pch/booster_pch.h",
                              "src/training.cpp", "src/training.h", "tests/model_test.cpp"});
  CHECK(files_in(folder / "a").size() == 14);  // nothing temporary is left
  CHECK(folder.read("a/b/my_net/CMakeLists.txt").find("project(my_net CXX)") != std::string::npos);
  CHECK(folder.read("a/b/my_net/meson.build").find("project('my_net'") != std::string::npos);
  for (const std::string& file : files_in(folder / "a/b/my_net"))
    CHECK(folder.read("a/b/my_net/" + file).find("@NAME@") == std::string::npos);
}

TEST_CASE("new refuses a folder or file that exists, and leaves it as it is") {
  const TemporaryFolder folder;
  folder.write("net/mine.txt", "mine");
  folder.write("file", "mine");
  fs::create_directory(folder / "empty");
  fs::create_symlink("nowhere", folder / "link");
  for (const char* name : {"net", "file", "empty", "link"}) {
    CAPTURE(name);
    const CommandResult refused = run_booster("new " + in_quotes(folder / name));
    CHECK(refused.code == 2);
    CHECK(refused.says("exists already"));
  }
  CHECK(files_in(folder.path()) == std::set<std::string>{"file", "net/mine.txt"});
  CHECK(folder.entries() == 4);
}

TEST_CASE("new refuses names that CMake, Meson or a shell could not have") {
  const TemporaryFolder folder;
  for (const char* name : {"7net", "a b", "net.x", "-x/..", "n\u00e9t", "a;b", "@NAME@", "."}) {
    CAPTURE(name);
    const CommandResult refused = run_booster("new " + in_quotes(folder / name));
    CHECK(refused.code == 2);
    CHECK(refused.says("want a letter, then letters, digits"));
  }
  CHECK(run_booster("new").code == 2);
  CHECK(folder.entries() == 0);
}
