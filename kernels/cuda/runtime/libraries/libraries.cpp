#include "kernels/cuda/runtime/libraries/libraries.h"

#include "kernels/cuda/runtime/libraries/library_folders.h"

#include <dlfcn.h>

namespace booster::kernels::cuda {

Library open_library(const std::vector<std::string>& files) {
  std::string missing;
  const auto open = [&](const std::string& path) {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (const char* reason = handle ? nullptr : dlerror(); missing.empty() && reason)
      missing = reason;
    return handle;
  };
  for (const std::string& file : files)
    if (void* handle = open(file)) return {handle, ""};
  const std::vector<std::string> folders = library_folders();
  for (const std::string& folder : folders)
    for (const std::string& file : files)
      if (void* handle = open(folder + "/" + file)) return {handle, ""};
  missing += folders.empty() ? "; there is no CUDA toolkit either" : "; it is not in";
  for (const std::string& folder : folders) missing += " " + folder;
  return {nullptr, missing + " (BOOSTER_CUDA_LIBRARIES names more folders)"};
}

}  // namespace booster::kernels::cuda
