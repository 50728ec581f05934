// Finds the program that a command names.
#pragma once

#include <string>

namespace booster {

// Returns the path of the executable file, looked up in PATH unless the name contains a '/'.
// Throws, with the nearest name, if it does not exist, is a folder or is not executable.
std::string find_program(const std::string& name);

}  // namespace booster
