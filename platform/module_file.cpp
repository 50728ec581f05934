#include "platform/module_file.h"

#include <dlfcn.h>

#include <filesystem>

namespace booster::kernels {

ModuleFile open_module(const std::string& name, const std::string& room, int mode) {
  Dl_info here = {};
  dladdr(reinterpret_cast<void*>(&open_module), &here);
  const auto folder = std::filesystem::absolute(here.dli_fname).parent_path();
  const std::string file = "libbooster_" + name + ".so";
  std::string broken;
  for (const auto& path : {folder / file, folder / ".." / room / file,
                           folder / "../.." / room / file, std::filesystem::path(file)}) {
    if (void* handle = dlopen(path.c_str(), mode)) return {handle, path, ""};
    const char* reason = dlerror();
    // An existing file that fails to load explains more than a file missing elsewhere.
    if (broken.empty() && std::filesystem::exists(path)) broken = reason;
    else if (path == file && broken.empty()) broken = reason;
  }
  return {nullptr, file, broken};
}

}  // namespace booster::kernels
