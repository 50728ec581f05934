#include "kernels/cuda/runtime/libraries/library_folders.h"

#include "platform/environment.h"

#include <glob.h>

#include <algorithm>
#include <sstream>

namespace booster::kernels::cuda {
namespace {

class Folders {
 public:
  // Adds the folders that match a pattern, the latest version first.
  void add(const std::string& pattern) {
    glob_t found = {};
    if (glob(pattern.c_str(), GLOB_ONLYDIR, nullptr, &found) == 0)
      for (size_t i = found.gl_pathc; i-- > 0;) add_once(found.gl_pathv[i]);
    globfree(&found);
  }
  void add_toolkit(const std::string& root) {
    if (!root.empty()) add(root + "/lib64");
  }
  void add_packages(const std::string& site_packages) { add(site_packages + "/nvidia/*/lib"); }
  std::vector<std::string> take() { return std::move(folders_); }

 private:
  void add_once(const std::string& folder) {
    if (std::ranges::find(folders_, folder) == folders_.end()) folders_.push_back(folder);
  }
  std::vector<std::string> folders_;
};

}  // namespace

std::vector<std::string> library_folders() {
  Folders folders;
  std::istringstream named(environment::text("BOOSTER_CUDA_LIBRARIES"));
  for (std::string folder; std::getline(named, folder, ':');) {
    if (folder.empty()) continue;
    folders.add(folder);
    folders.add_toolkit(folder);
    folders.add_packages(folder);
  }
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) folders.add_toolkit(environment::text(name));
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string root = environment::text(name); !root.empty())
      folders.add_packages(root + "/lib/python3*/site-packages");
  folders.add_toolkit("/usr/local/cuda");
  folders.add_toolkit("/usr/local/cuda-*");
  return folders.take();
}

}  // namespace booster::kernels::cuda
