#include "core/data/datasets/image_listing.h"

#include "platform/error.h"

#include <algorithm>

namespace booster {

namespace {

void add_class(const char* what, const std::string& root, const ImageFiles& files,
               const std::string& name, int64_t label, ImageListing& listing) {
  const auto found = files.images(name);
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

ImageListing list_images(const char* what, const std::string& root, const ImageFiles& files,
                         const std::vector<std::string>& excluded,
                         std::vector<std::string> classes) {
  std::vector<std::string> folders = files.folders();
  std::erase_if(folders, [&](const std::string& name) {
    return std::ranges::find(excluded, name) != excluded.end();
  });
  const size_t least = classes.empty() ? 2 : 1;
  if (folders.size() < least)
    fail_data(
        "{}: too few classes in '{}'; got {}, want a folder of images for each of at least {}",
        what, root, folders.empty() ? "none" : "only '" + folders[0] + "'", least);
  ImageListing listing{classes.empty() ? folders : std::move(classes), {}, {}};
  for (const std::string& name : folders)
    add_class(what, root, files, name, label_of(what, root, name, listing.classes), listing);
  return listing;
}

}  // namespace booster
