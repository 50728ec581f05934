// The image files below a root, by class.
#pragma once

#include "core/data/datasets/image_files.h"

#include <cstdint>
#include <string>
#include <vector>

namespace booster {

struct ImageListing {
  std::vector<std::string> classes;  // by label
  std::vector<std::string> paths;    // ROOT/CLASS/**/NAME, class by class, sorted
  std::vector<int64_t> labels;       // of each path
  // Lists unread files, and classes that differ only in case; "" if there are none.
  std::string left_out = {};
};

// Lists the classes: the folders of `root`, except those in `excluded`. `files` must be of `root`.
// The labels are in the order of `classes` if it is not empty. Throws errors of kind data that
// begin with `what`: fewer than two classes (none, if `classes` is given), a class without images,
// a folder that is not in `classes`.
ImageListing list_images(const char* what, const std::string& root, const ImageFiles& files,
                         const std::vector<std::string>& excluded = {},
                         std::vector<std::string> classes = {});

}  // namespace booster
