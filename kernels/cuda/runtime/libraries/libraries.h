// NVIDIA's libraries, which are opened when they are first used: none of them is linked, since they
// are large (libcublasLt alone has half a GB) and a machine may lack them.
#pragma once

#include <string>
#include <vector>

namespace booster::kernels::cuda {

struct Library {
  void* handle = nullptr;  // of dlopen
  std::string missing;     // why there is none
};

// The first of these files that the system finds, or that one of library_folders() has.
Library open_library(const std::vector<std::string>& files);

}  // namespace booster::kernels::cuda
