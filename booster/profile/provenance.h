// By what a result was made: the command, and the revisions of the sources. For run.json.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace booster {

// The words that started this process, the program's name first.
std::vector<std::string> command_line();

// The commit that git has checked out in the working folder, as 40 digits, with "-dirty" behind it
// if tracked files were changed; "" if the folder belongs to no work tree or there is no git. Runs
// git.
std::string folder_revision();

// The same of the folder that the library was built in, then; "" if that was no work tree.
const char* build_revision();

// {"folder": revision of the working folder, "library": revision of the build}; null where unknown.
nlohmann::json revisions();

}  // namespace booster
