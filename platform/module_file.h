// Parts of the library that are files of their own, loaded when they are used, so that nothing else
// depends on what they need (MPI, CUDA).
#pragma once

#include <string>

namespace booster::kernels {

struct ModuleFile {
  void* handle = nullptr;  // of dlopen
  std::string path;        // what was loaded; else the file's name
  std::string missing;     // why nothing was loaded
};

// Looks for "libbooster_<name>.so" beside the library or program that this is part of, then where a
// build has it (`room`: "parallel"), then where the system looks. `mode` is dlopen's.
ModuleFile open_module(const std::string& name, const std::string& room, int mode);

}  // namespace booster::kernels
