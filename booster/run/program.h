// Finding the program that a command names.
#pragma once

#include <string>

namespace booster {

// Path of the executable file, looked up along PATH unless the name holds a '/'. Error, with the
// nearest name, if there is none, or if it is a folder or not executable.
std::string find_program(const std::string& name);

}  // namespace booster
