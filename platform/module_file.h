// Parts of the library in separate files, loaded at first use, so that nothing else depends on what
// they need (MPI, CUDA).
#pragma once

#include <string>

namespace booster::kernels {

struct ModuleFile {
  void* handle = nullptr;  // of dlopen
  std::string path;        // the loaded file; if none, the file's name
  std::string missing;     // why nothing was loaded
};

// Looks for "libbooster_<name>.so" next to the library or program that contains this code, then
// where a build puts it (`room`: "parallel"), then where the system looks. `mode` is dlopen's.
ModuleFile open_module(const std::string& name, const std::string& room, int mode);

}  // namespace booster::kernels
