// Loads parts of the library from separate files at first use. Only these files depend on MPI or
// CUDA.
#pragma once

#include <string>

namespace booster::kernels {

struct ModuleFile {
  void* handle = nullptr;  // of dlopen
  std::string path;        // the loaded file; if none, the file's name
  std::string missing;     // error if nothing was loaded
};

// Looks for "libbooster_<name>.so" next to the library or program that contains this code, then in
// the build folder (`room` is the layer: "parallel"), then in the system's search path. `mode` is
// dlopen's.
ModuleFile open_module(const std::string& name, const std::string& room, int mode);

}  // namespace booster::kernels
