// The files of a new project, which `booster new` writes: a model, a training loop and a test that
// build with CMake and with Meson against the installed library. They lie in project/.
#pragma once

#include <string>
#include <vector>

namespace booster {

struct ProjectFile {
  std::string path;  // within the project's folder
  std::string text;
};

// Throws unless the name is one for CMake, Meson and the shell: a letter, then letters, digits, '_'
// and '-'.
void check_project_name(const std::string& name);

// Returns the files of a project of this name, which must be a legal one.
std::vector<ProjectFile> project_files(const std::string& name);

// Returns the same with @NAME@ for the project's name. Made by embed.sh.
std::vector<ProjectFile> project_templates();

}  // namespace booster
