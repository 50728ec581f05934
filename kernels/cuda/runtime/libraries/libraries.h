// NVIDIA's libraries, opened at first use. None of them is linked, since they are large
// (libcublasLt alone has half a GB) and a machine may lack them.
#pragma once

#include <string>
#include <vector>

namespace booster::kernels::cuda {

struct Library {
  void* handle = nullptr;  // of dlopen
  std::string missing;     // why it could not be opened
};

// Opens the first of these files that the system, or a folder of library_folders(), has.
Library open_library(const std::vector<std::string>& files);

}  // namespace booster::kernels::cuda
