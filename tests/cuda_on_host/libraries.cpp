// NVIDIA's libraries are played by this module itself.
#include "kernels/cuda/runtime/libraries.h"

#include <dlfcn.h>

namespace booster::kernels::cuda {

Library open_library(const std::vector<std::string>&) {
  Dl_info here = {};
  static const char somewhere_in_it = 0;
  if (!dladdr(&somewhere_in_it, &here)) return {nullptr, "this module has no name"};
  return {dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD), ""};
}

}  // namespace booster::kernels::cuda
