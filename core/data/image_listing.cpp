#include "core/data/image_listing.h"

#include "kernels/system/error.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace booster {
namespace fs = std::filesystem;

namespace {

bool is_hidden(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with('.') || name == "__MACOSX";
}

bool is_image_by_name(const fs::path& path) {
  static const std::vector<std::string> extensions = {".jpg", ".jpeg", ".png", ".bmp",  ".gif",
                                                      ".ppm", ".pgm",  ".tif", ".tiff", ".webp"};
  std::string extension = path.extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return !is_hidden(path) && std::ranges::find(extensions, extension) != extensions.end();
}

// False for a link that leads nowhere, or to itself.
bool is_folder(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_directory(error);
}
bool is_file(const fs::directory_entry& entry) {
  std::error_code error;
  return entry.is_regular_file(error);
}

std::vector<std::string> image_paths(const fs::path& folder) {
  std::vector<std::string> paths;
  for (auto entry = fs::recursive_directory_iterator(folder);
       entry != fs::recursive_directory_iterator(); ++entry) {
    if (is_folder(*entry) && is_hidden(entry->path())) entry.disable_recursion_pending();
    else if (is_file(*entry) && is_image_by_name(entry->path()))
      paths.push_back(entry->path().string());
  }
  std::ranges::sort(paths);
  return paths;
}

[[noreturn]] void fail_unreadable(const char* what, const fs::filesystem_error& error) {
  fail_data("{}: cannot read '{}': {}", what, error.path1().string(), error.code().message());
}

void add_class(const char* what, const std::string& root, const std::string& name, int64_t label,
               ImageListing& listing) {
  const auto found = image_paths(fs::path(root) / name);
  if (found.empty())
    fail_data("{}: class '{}' in '{}' is empty; want files named *.jpg, *.jpeg or *.png", what,
              name, root);
  listing.paths.insert(listing.paths.end(), found.begin(), found.end());
  listing.labels.insert(listing.labels.end(), found.size(), label);
}

int64_t label_of(const char* what, const std::string& root, const std::string& name,
                 const std::vector<std::string>& classes) {
  const auto found = std::ranges::find(classes, name);
  if (found != classes.end()) return found - classes.begin();
  const std::string near = nearest_name(name, classes);
  fail_data("{}: folder '{}' in '{}' is none of the {} classes{}", what, name, root, classes.size(),
            near.empty() ? "" : "; did you mean '" + near + "'?");
}

}  // namespace

std::vector<std::string> folders_in(const char* what, const std::string& root) {
  if (!fs::is_directory(root)) fail_data("{}: no such folder; got '{}'", what, root);
  std::vector<std::string> names;
  try {
    for (const auto& entry : fs::directory_iterator(root))
      if (is_folder(entry) && !is_hidden(entry.path()))
        names.push_back(entry.path().filename().string());
  } catch (const fs::filesystem_error& error) {
    fail_unreadable(what, error);
  }
  std::ranges::sort(names);
  return names;
}

ImageListing list_images(const char* what, const std::string& root,
                         const std::vector<std::string>& excluded,
                         std::vector<std::string> classes) {
  std::vector<std::string> folders = folders_in(what, root);
  std::erase_if(folders, [&](const std::string& name) {
    return std::ranges::find(excluded, name) != excluded.end();
  });
  const size_t least = classes.empty() ? 2 : 1;
  if (folders.size() < least)
    fail_data(
        "{}: too few classes in '{}'; got {}, want a folder of images for each of at least {}",
        what, root, folders.empty() ? "none" : "only '" + folders[0] + "'", least);
  ImageListing listing{classes.empty() ? folders : std::move(classes), {}, {}};
  try {
    for (const std::string& name : folders)
      add_class(what, root, name, label_of(what, root, name, listing.classes), listing);
  } catch (const fs::filesystem_error& error) {
    fail_unreadable(what, error);
  }
  return listing;
}

}  // namespace booster
