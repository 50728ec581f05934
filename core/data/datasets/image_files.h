// Files of images below a root: a folder, or an archive (tar, zip) that is read in place. A path in
// an archive goes on behind that of the archive: "sets/flowers.zip/train/rose/1.jpg". Objects are
// immutable; thread-safe.
#pragma once

#include "core/data/archives/left_out.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace booster {

class ImageFiles {
 public:
  virtual ~ImageFiles() = default;
  // Names of the folders in the root, sorted, but not of hidden ones. `left_out` counts what else
  // there is.
  virtual std::vector<std::string> folders(LeftOut& left_out) const = 0;
  // Whole paths of the images below a folder of the root, sorted: what has an image's extension and
  // is not hidden, nor in a hidden folder. Links to folders are followed, but for those to a folder
  // that they lie in. `left_out` counts all other files.
  virtual std::vector<std::string> images(const std::string& folder, LeftOut& left_out) const = 0;
  // The bytes of such a file. Error as read_image_file's (images/image_file.h).
  virtual std::vector<uint8_t> read(const std::string& path) const = 0;
};

// Errors of kind data, which begin with `what`: no such folder, or one that cannot be read; and
// those of Archive. A file is an archive whatever its name is.
std::shared_ptr<const ImageFiles> open_image_files(const char* what, const std::string& root);

}  // namespace booster
