// The files of a new project, which `booster new` writes: a model, a training loop and a test that
// build with CMake and with Meson against the installed library.
#pragma once

#include <string>
#include <vector>

namespace booster {

struct ProjectFile {
  std::string path;  // within the project's folder
  std::string text;
};

// Returns the files of a project of this name, which must be legal (see check_project_name).
std::vector<ProjectFile> project_files(const std::string& name);

// Throws unless the name is one for CMake, Meson and the shell: a letter, then letters, digits, '_'
// and '-'.
void check_project_name(const std::string& name);

// The parts of the list, with @NAME@ for the project's name.
std::vector<ProjectFile> project_build_files();
std::vector<ProjectFile> project_sources();

}  // namespace booster
