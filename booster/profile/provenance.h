// The origin of a result: the command, and the revisions of the sources. For run.json.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace booster {

// Returns the words that started this process, the program's name first.
std::vector<std::string> command_line();

// Returns the commit checked out in the working folder, as 40 digits, followed by "-dirty" if
// tracked files were changed. Returns "" if the folder is in no work tree or git is missing. Runs
// git.
std::string folder_revision();

// Returns the same for the folder and the time of the library's build; "" if it was no work tree.
const char* build_revision();

// Returns {"folder": revision of the working folder, "library": revision of the build}, with null
// for unknown ones.
nlohmann::json revisions();

}  // namespace booster
