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
  // What is not read, and which classes only differ in case; "" if there is nothing to say.
  std::string left_out = {};
};

// Folders of `root`, which `files` are of, are the classes, except those in `excluded`, in the
// order of `classes` if that is not empty. Errors of kind data, which begin with `what`: fewer than
// two classes, a class without images, a folder that is none of `classes`.
ImageListing list_images(const char* what, const std::string& root, const ImageFiles& files,
                         const std::vector<std::string>& excluded = {},
                         std::vector<std::string> classes = {});

}  // namespace booster
