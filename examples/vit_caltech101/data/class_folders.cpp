#include "examples/vit_caltech101/data/class_folders.h"

#include <booster/booster.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

namespace example {

using namespace booster;

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

std::vector<std::string> class_names(const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  std::set<std::string> all;
  for (const std::string& folder : folders) {
    names.push_back(terminal_text(folder));
    if (!all.insert(names.back()).second)
      fail_data(
          "data.root: two classes are written alike; got {} twice, want one of the folders "
          "called otherwise",
          names.back());
  }
  return names;
}

std::vector<std::string> class_folders(const std::vector<std::string>& classes,
                                       const std::string& root) {
  std::map<std::string, std::string> by_name;
  for (const std::string& folder : image_folders(root)) by_name[terminal_text(folder)] = folder;
  std::vector<std::string> folders;
  for (const std::string& name : classes) {
    const auto found = by_name.find(name);
    folders.push_back(found == by_name.end() ? name : found->second);
  }
  return folders;
}

std::string within_archive(const std::string& root, const std::vector<std::string>& wanted) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(root, error)) return root;
  const auto folders = image_folders(root);
  return folders.size() == 1 && !holds(wanted, terminal_text(folders[0])) ? root + "/" + folders[0]
                                                                          : root;
}

}  // namespace example
