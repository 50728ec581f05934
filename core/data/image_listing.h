// The image files below a folder, by class.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace booster {

struct ImageListing {
  std::vector<std::string> classes;  // by label
  std::vector<std::string> paths;    // ROOT/CLASS/**/NAME, class by class, sorted
  std::vector<int64_t> labels;       // of each path
};

// Folders of `root` are the classes, except those in `excluded`, in the order of `classes` if that
// is not empty. Hidden files and folders, files without an image extension and links that lead
// nowhere, or to themselves, are left out. Errors of kind data, which begin with `what`: no such
// folder or one that cannot be read, fewer than two classes, a class without images, a folder that
// is none of `classes`.
ImageListing list_images(const char* what, const std::string& root,
                         const std::vector<std::string>& excluded = {},
                         std::vector<std::string> classes = {});
// Names of the folders in it, sorted, but not of hidden ones. Error of kind data as above.
std::vector<std::string> folders_in(const char* what, const std::string& root);

}  // namespace booster
