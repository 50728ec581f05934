#include "kernels/cuda/runtime/libraries.h"

#include <dlfcn.h>

namespace booster::kernels::cuda {

Library open_library(const std::vector<std::string>& files) {
  std::string missing;
  for (const std::string& file : files) {
    if (void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return {handle, ""};
    if (const char* reason = dlerror(); missing.empty() && reason) missing = reason;
  }
  return {nullptr, missing};
}

}  // namespace booster::kernels::cuda
